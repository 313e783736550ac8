"""Write results of peerannot 0.0.1.post43 on a small crowd for test_against_peerannot.py. Run where it is installed:

python tests/truth/methods/generate_peerannot.py

Its WDS cannot be run: it calls its own DawidSkene with arguments that class no longer takes.
"""

import json
from pathlib import Path

import numpy as np


def main():
    from peerannot.models.aggregation.dawid_skene import DawidSkene
    from peerannot.models.aggregation.iwmv import IWMV
    from peerannot.models.aggregation.naive_soft import NaiveSoft
    from peerannot.models.aggregation.twothird import TwoThird
    from peerannot.models.aggregation.wawa import Wawa

    rng = np.random.default_rng(3)
    truth = rng.integers(0, 3, 24)
    skill = rng.uniform(0.5, 0.95, 7)
    answers = {}
    for task in range(24):
        for worker in rng.permutation(7)[:5]:
            right = rng.random() < skill[worker]
            answers.setdefault(task, {})[int(worker)] = int(truth[task] if right else rng.integers(0, 3))
    sizes = {"n_classes": 3, "n_workers": 7}
    dawid_skene = DawidSkene(answers, **sizes)
    dawid_skene.run(maxiter=12, epsilon=0)
    wawa, iwmv = Wawa(answers, **sizes), IWMV(answers, **sizes)
    wawa.run()
    iwmv.run(10)
    expected = {
        "answers": [[t, w, label] for t, row in answers.items() for w, label in row.items()],
        "naive_soft": NaiveSoft(answers, **sizes).get_probas().tolist(),
        "dawid_skene": dawid_skene.get_probas().tolist(),
        "confusion": dawid_skene.pi.tolist(),
        "wawa": wawa.get_answers().tolist(),
        "wawa_scores": wawa.baseline.tolist(),
        "iwmv": iwmv.get_answers().tolist(),
        "two_third": [int(a) for a in TwoThird(answers, **sizes).get_answers()],
    }
    Path(__file__).with_name("peerannot.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
