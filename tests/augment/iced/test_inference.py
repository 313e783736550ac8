"""Class shares of the real tasks, and labels that repeat one worker's answers."""

import warnings

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.answers import Answers
from crowdwise.augment.iced.inference import estimate_shares, find_dominant_worker, posterior, warn_of_dominant_worker
from crowdwise.errors import CrowdwiseWarning, DominantWorkerWarning


def test_shares_maximise_the_likelihood():
    """Against a grid: the sum of log(sum over c of share[c] * likelihood[t, c])."""
    likelihood = np.random.default_rng(0).dirichlet([0.5, 0.5], size=60) * [3, 1]
    grid = np.linspace(0.001, 0.999, 999)
    bound = np.log(likelihood @ np.array([grid, 1 - grid])).sum(axis=0)
    assert abs(estimate_shares(likelihood)[0] - grid[bound.argmax()]) < 0.002


def test_posterior_by_hand():
    np.testing.assert_allclose(posterior(np.array([[0.3, 0.6]]), np.array([0.8, 0.2])), [[2 / 3, 1 / 3]])


class TestDominantWorker:
    """Ten tasks of class 0. Worker 0 says 1 on tasks 0 and 1, workers 1 and 2 say 1 on task 9."""

    label = np.zeros((10, 3), int)
    label[:2, 0], label[9, 1:] = 1, 1
    answers = Answers.from_codes(
        np.repeat(np.arange(10), 3), np.tile(np.arange(3), 10), label.ravel(), tasks=10, workers=["a", "b", "c"],
        classes=2,
    )  # fmt: skip
    vote = label[:, 1]

    def test_labels_that_are_a_workers_answers(self):
        assert find_dominant_worker(self.answers, self.label[:, 0], self.vote) == 0
        with pytest.warns(DominantWorkerWarning, match=r"one worker, a; .* 30% of the tasks"):
            warn_of_dominant_worker(self.answers, self.label[:, 0], self.vote)

    @pytest.mark.parametrize("labels", [label[:, 1], np.zeros(10, int)])
    def test_other_labels(self, labels):
        """The vote repeats workers 1 and 2, who agree with it: that is no sign of a dominant worker."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warn_of_dominant_worker(self.answers, labels, self.vote)

    def test_workers_with_few_answers_do_not_count(self):
        few = self.answers.take(np.flatnonzero((self.answers.worker != 0) | (self.answers.task < 4)))
        assert find_dominant_worker(few, self.label[:, 0], self.vote) is None


def imbalanced(seed, n_classes):
    """One class of 300 tasks, the others of 30, answered by nine workers with accuracies from 0.5 to 0.82."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.repeat(np.arange(n_classes), [300, *[30] * (n_classes - 1)]))
    right = rng.uniform(0.5, 0.82, size=(9, n_classes))
    confusion = np.repeat(((1 - right) / (n_classes - 1))[:, :, None], n_classes, axis=2)
    confusion[:, np.arange(n_classes), np.arange(n_classes)] = right
    X = rng.normal(size=(len(truth), 8)) + 1.5 * np.eye(8)[truth] * 2
    return X.astype(np.float32), cw.simulate.answer(truth, confusion, 9, seed=rng)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_do_not_collapse_and_beat_the_vote(n_classes):
    """Hard decisions settle on one worker in some of these crowds, and say so; the default never does."""
    options = {"epochs": 6, "epochs_per_round": 2, "network": cw.MLP(16), "warmup_epochs": 2, "decoder_epochs": 2}
    gains, warned = [], 0
    for seed in range(6):
        X, answers = imbalanced(seed, n_classes)
        with warnings.catch_warnings():
            warnings.simplefilter("error", CrowdwiseWarning)
            model = cw.ICED(**options, random_state=seed).fit(X, answers)
        vote = cw.MajorityVote(random_state=seed).fit(answers)
        gains.append((model.codes_ == answers.truth).mean() - (vote.codes_ == answers.truth).mean())
        if n_classes == 2:
            paper = cw.ICED(**options, hard=True, candidates="all", real_shares=False, smoothing=None)
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                paper.fit(X, answers)
            warned += any(issubclass(w.category, DominantWorkerWarning) for w in found)
    assert np.mean(gains) > 2 * np.std(gains, ddof=1) / np.sqrt(len(gains)), gains
    assert warned or n_classes > 2
