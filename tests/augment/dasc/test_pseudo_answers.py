import numpy as np
import pytest

import crowdwise as cw
from crowdwise.augment.dasc.pseudo_answers import (
    PseudoAnswers,
    mean_statistics,
    merge_pseudo_answers,
    pool_statistics,
    quality,
)


def test_pseudo_answers_have_the_mean_weight_of_answers():
    answers = cw.simulate.simulate(20, n_workers=6, n_classes=3)
    weighted = cw.Answers.from_codes(
        answers.task, answers.worker, answers.label, weight=np.full(answers.n_answers, 0.2),
        tasks=answers.n_tasks, workers=answers.n_workers, classes=answers.n_classes,
    )  # fmt: skip
    task, worker = np.setdiff1d(np.arange(answers.n_workers), answers.worker[answers.task == 0])[:1], np.zeros(1, int)
    pseudo = PseudoAnswers(worker, task, np.array([1]), np.array([0.5]), np.array([1]), np.array([0]))
    assert merge_pseudo_answers(weighted, pseudo).weight.tolist() == pytest.approx([0.2] * (answers.n_answers + 1))
    assert merge_pseudo_answers(weighted, pseudo, soft=True).weight.min() == pytest.approx(0.1)
    assert merge_pseudo_answers(answers, pseudo).weight is None


def test_quality_by_hand():
    label = np.array([0, 0, 0, 1, 2, 2, 3, 3])
    truth = np.array([0, 0, 1, 1, 2, 3, 3, -1])
    # classes 0 and 2 are named most: precision 2/3 and 1/2; recall of 1 is 1/2, of 3 is 1/2
    out = quality(label, truth, np.array([40, 5, 30, 6]))
    assert out == pytest.approx({"accuracy": 5 / 7, "precision_majority": 7 / 12, "recall_minority": 1 / 2})
    # of three classes the middle one is in the majority; nothing was chosen whose truth is 1
    out = quality(np.array([0, 2]), np.array([0, 0]), np.array([9, 1, 5]))
    assert out == {"accuracy": 0.5, "precision_majority": 0.5, "recall_minority": None}
    assert quality(np.array([0]), np.array([-1]), np.array([1, 1]))["accuracy"] is None


def test_pool_statistics_by_hand():
    answers = cw.Answers.from_codes([0, 0, 1], [0, 1, 0], [0, 0, 1], tasks=2, workers=3, classes=2)
    pseudo = PseudoAnswers(*map(np.array, ([1, 1], [1, 2], [1, 1], [0.9, 0.8], [1, 2], [0, 1])))
    assert pool_statistics(answers, pseudo, 2) == {"answers": 5, "imbalance": 1.5, "chosen": [0, 1]}
    known = answers.with_truth(np.array([0, 1], np.int32))
    # class 0 is the majority and was not chosen; class 1 was chosen correctly
    right = {"accuracy": 1.0, "precision_majority": None, "recall_minority": 1.0}
    assert pool_statistics(known, pseudo, 2) == {"answers": 5, "imbalance": 1.5, "chosen": [0, 1], **right}
    assert pool_statistics(known, pseudo.before(1), 0) == {"answers": 3, "imbalance": 2.0, "chosen": [0, 0]}
    second = pseudo.for_member(1)
    assert pool_statistics(known, second, 2) == {
        "answers": 4,
        "imbalance": 1.0,
        "chosen": [0, 1],
        **right,
    }


def test_means_are_over_the_members_with_a_value():
    members = [
        {"answers": 4, "chosen": [0, 0]},
        {"answers": 5, "chosen": [0, 1], "accuracy": 1.0, "recall_minority": None},
        {"answers": 6, "chosen": [3, 2], "accuracy": 0.5, "recall_minority": None},
    ]
    means = {"answers": 5.0, "chosen": [1.0, 1.0], "accuracy": 0.75, "recall_minority": None}
    assert mean_statistics(members) == {**means, "members": members}
