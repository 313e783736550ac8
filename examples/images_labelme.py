"""Images answered by a real crowd: from 2.5 answers per picture to labels and a classifier of new pictures.

LabelMe: 1,000 pictures of eight kinds of places, each answered by a few of 59 workers on Mechanical Turk; three answers
in four are right. The example shows how many labels are right, by majority vote and by the method the run chose; which
pictures are ambiguous (the report shows them with all answers); and how well a classifier trained on the crowd does on
new pictures, compared with one trained on majority votes and one trained on the truth, the ceiling.

The truth is used for scoring only. Needs the data (docs/datasets.md): labelme/ in the folder CROWDWISE_DATA.

    python examples/images_labelme.py [--out runs/labelme]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import crowdwise as cw
from crowdwise.evaluate import summarise


def train_on_votes(answers: cw.Answers, X: np.ndarray, **training: Any) -> Any:
    """Return a classifier trained on majority votes: the plain two-step approach."""
    return cw.Aggregated("majority-vote", soft=False, **training).fit(X, answers)


def main(out: Path, small: bool = False) -> cw.run.Run:
    """Run the complete job on the pictures, then classify the test split."""
    data: Any = cw.datasets.load("labelme")
    n_tasks = 200 if small else data.answers.n_tasks
    options: dict[str, Any] = {"method": ["dawid-skene", "aggnet"], "folds": 2, "n_jobs": 1} if small else {}
    answers, X = data.answers[:n_tasks], data.X[:n_tasks]  # rows of X follow answers.tasks
    images = None if data.images is None else data.images["train"][:n_tasks]

    run = cw.run(answers, out, features=X, images=images, resume=True, **options)

    scores, method = run.metrics["truth"], run.metrics["method"]
    right = summarise(answers).answer_accuracy
    print(f"{answers.n_answers:,} answers to {n_tasks:,} pictures, {right:.1%} of them right.")
    print(f"Labels by majority vote: {scores['vote_accuracy']:.1%} right; by {method}: {scores['accuracy']:.1%}.")
    print(run.metrics["why"])
    print(
        f"{scores['accepted_tasks']:,} labels are accepted; {run.metrics['expected_accepted']:.1%} of them were "
        f"expected to be right, without looking at the truth, and {scores['accepted_accuracy']:.1%} are."
    )
    hardest = run.tasks.slice(0, 1).to_pylist()[0]
    print(f"The most ambiguous picture is {hardest['task']}, labelled {hardest['labels']}.")

    perfect = cw.Answers.from_arrays(answers.tasks, ["truth"] * n_tasks, data.truth[:n_tasks], tasks=answers.tasks)
    quick = {"epochs": 20} if small else {}
    classifiers = {
        "majority votes": train_on_votes(answers, X, **quick),
        "the run": run.classifier,
        "the truth (the ceiling)": train_on_votes(perfect, X, **quick),
    }
    print(f"On {len(data.truth_test):,} new pictures, a classifier learned from")
    for name, classifier in classifiers.items():
        print(f"  {name:24} gets {np.mean(classifier.predict(data.X_test) == data.truth_test):.1%} right.")
    print(f"Report, with the pictures: {run.path / 'report.html'}")
    return run


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/labelme"), help="run folder")
    main(parser.parse_args().out)
