"""Images answered by a real crowd: from 2.5 answers a picture to labels, and to a classifier of new pictures.

LabelMe: 1,000 pictures of eight kinds of places, each answered by a few of 59 workers of Mechanical Turk, three
answers in four right. You will see how many labels are right, by majority vote and by the method the run chose; which
pictures are ambiguous (the report shows them, with who said what); and how well a classifier learned from the crowd
does on pictures nobody answered, beside one learned from majority votes, and one from the truth: the most to hope for.

The truth is used to score alone. Needs the data (docs/datasets.md): a folder in CROWDWISE_DATA that holds labelme/.

    python examples/images_labelme.py [--out runs/labelme]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import crowdwise as cw
from crowdwise.evaluate import summarise


def learned_from(answers: cw.Answers, X: np.ndarray, **training: Any) -> Any:
    """A classifier of the labels that most say: the plain way in two steps."""
    return cw.Aggregated("majority-vote", soft=False, **training).fit(X, answers)


def main(out: Path, small: bool = False) -> cw.run.Run:
    """Run the whole job on the pictures, then classify the test split."""
    data: Any = cw.datasets.load("labelme")
    n_tasks = 200 if small else data.answers.n_tasks
    options: dict[str, Any] = {"method": ["dawid-skene", "aggnet"], "folds": 2, "n_jobs": 1} if small else {}
    answers, X = data.answers[:n_tasks], data.X[:n_tasks]  # rows of X follow answers.tasks
    images = None if data.images is None else data.images["train"][:n_tasks]

    run = cw.run.run(answers, out, features=X, images=images, resume=True, **options)

    told, method = run.metrics["truth"], run.metrics["method"]
    right = summarise(answers).answer_accuracy
    print(f"{answers.n_answers:,} answers to {n_tasks:,} pictures, {right:.1%} of them right.")
    print(f"Labels by majority vote: {told['vote_accuracy']:.1%} right; by {method}: {told['accuracy']:.1%}.")
    print(run.metrics["why"])
    print(
        f"{told['accepted_tasks']:,} labels are accepted; {run.metrics['expected_accepted']:.1%} of them were expected "
        f"to be right, without looking at the truth, and {told['accepted_accuracy']:.1%} are."
    )
    hardest = run.tasks.slice(0, 1).to_pylist()[0]
    print(f"The most ambiguous picture is {hardest['task']}, which workers call {hardest['labels']}.")

    perfect = cw.Answers.from_arrays(answers.tasks, ["truth"] * n_tasks, data.truth[:n_tasks], tasks=answers.tasks)
    quick = {"epochs": 20} if small else {}
    classifiers = {
        "majority votes": learned_from(answers, X, **quick),
        "the run": run.classifier,
        "the truth (the ceiling)": learned_from(perfect, X, **quick),
    }
    print(f"On {len(data.truth_test):,} new pictures, a classifier learned from")
    for name, classifier in classifiers.items():
        print(f"  {name:24} gets {np.mean(classifier.predict(data.X_test) == data.truth_test):.1%} right.")
    print(f"Report, with the pictures: {run.path / 'report.html'}")
    return run


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/labelme"), help="where the run goes")
    main(parser.parse_args().out)
