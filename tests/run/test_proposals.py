"""What answers are proposed to buy, against the labels of the run."""

import numpy as np

import crowdwise as cw
from crowdwise.run import run


def test_what_is_proposed_is_believed_as_the_labels_are(tmp_path):
    """The same label and the same confidence in next.csv as in labels.csv, ties of the vote among them."""
    answers = cw.simulate.simulate(120, n_workers=8, n_classes=3, answers_per_task=2, seed=3)
    for method in ("majority-vote", "dawid-skene"):
        made = run(answers, tmp_path / method, method=method, budget=60)
        label = dict(zip(made.labels.column("task").to_pylist(), made.labels.to_pylist(), strict=True))
        rows = made.next.to_pylist()
        assert len(rows) > 20
        for row in rows:
            assert row["belief"] == str(label[row["task"]]["label"])
            np.testing.assert_allclose(row["confidence"], label[row["task"]]["confidence"], rtol=1e-6)
