"""Certainty, groups, quotas, neighbours, interpolation and simulated answers, against cases by hand."""

import numpy as np
import pytest

from crowdwise.answers import Answers
from crowdwise.augment.iced.neighbours import (
    Interpolation,
    balancing_counts,
    certainty,
    certainty_groups,
    interpolate_tasks,
    interpolation_weights,
    nearest,
    simulate_answers,
    variance,
    warm_up_plan,
)


def rng(seed=0):
    return np.random.default_rng(seed)


def votes(*rows):
    counts = np.array(rows, float)
    return counts / counts.sum(axis=1, keepdims=True)


class TestCertainty:
    def test_two_classes_as_in_the_paper(self):
        """6-1 of 7: the variance of the labels themselves, mean over workers of (y - mean)^2 = 6/49."""
        said = np.array([1, 1, 1, 1, 1, 1, 0])
        assert np.isclose(variance(votes([1, 6]))[0], said.var())
        np.testing.assert_allclose(certainty(votes([1, 6], [7, 0]), 0.05), [1 / (6 / 49 + 0.05), 20])

    def test_more_classes_by_hand(self):
        """3-1-1 of 5: 1 - (9 + 1 + 1) / 25 = 14/25, the mean squared distance of one-hot answers to their mean."""
        said = np.eye(3)[[0, 0, 0, 1, 2]]
        distance = np.square(said - said.mean(axis=0)).sum(axis=1).mean()
        assert np.isclose(variance(votes([3, 1, 1]))[0], 14 / 25)
        assert np.isclose(distance, 14 / 25)
        np.testing.assert_allclose(certainty(votes([3, 1, 1]), 0.1), [1 / (0.56 + 0.1)])

    def test_lowest_at_a_tie_and_highest_where_all_agree(self):
        sure = certainty(votes([4, 0], [3, 1], [2, 2]), 0.05)
        assert (np.diff(sure) < 0).all()
        assert sure[0] == 20

    def test_two_classes_are_half_of_the_general_form(self):
        two, three = votes([5, 2]), votes([5, 2, 0])
        np.testing.assert_allclose(2 * variance(two), variance(three))


class TestGroups:
    @pytest.mark.parametrize("n_votes", [7, 9, 11])
    @pytest.mark.parametrize("n_classes", [2, 4])
    def test_margins_of_the_paper(self, n_votes, n_classes):
        dissent = np.arange(n_votes // 2 + 1)
        shares = np.zeros((len(dissent), n_classes))
        shares[:, 0], shares[:, -1] = (n_votes - dissent) / n_votes, dissent / n_votes
        expected = [1, 2, 3] + [0] * (len(dissent) - 3)
        assert certainty_groups(shares, n_votes).tolist() == expected

    def test_three_ways_is_less_certain_than_two(self):
        assert certainty_groups(votes([5, 2, 0], [5, 1, 1]), 7).tolist() == [3, 0]

    def test_few_votes(self):
        """Of two or three: unanimous tasks, then 2-1; a tie has no label and is excluded."""
        shares = votes([1, 0, 0], [0, 2, 0], [3, 0, 0], [2, 1, 0], [1, 1, 0], [1, 1, 1])
        for usual in (2, 2.5, 3):
            assert certainty_groups(shares, usual).tolist() == [1, 1, 1, 2, 0, 0]
        assert certainty_groups(votes([1, 0], [0, 1]), 1).tolist() == [1, 1]

    def test_uneven_numbers_of_votes(self):
        """With ten votes usual: 19-1 belongs to 9-1, 13-2 to 8-2, 2-1 is low."""
        shares = votes([4, 0], [19, 1], [9, 1], [13, 2], [8, 2], [2, 1], [10, 10])
        assert certainty_groups(shares, 10).tolist() == [1, 2, 2, 3, 3, 0, 0]


class TestWarmUp:
    group = certainty_groups(votes([7, 0], [6, 1], [5, 2], [4, 3], [0, 7], [2, 5]), 7)

    @pytest.mark.parametrize(
        ("kind", "expected"),
        [
            ("iced", [([2, 5], 4), ([1], 4), ([0, 4], 4)]),  # third, second, highest
            ("trad1", [([0, 1, 2, 3, 4, 5], 12)]),
            ("trad2", [([0, 1, 2, 4, 5], 12)]),
            (None, []),
        ],
    )
    def test_stages_and_epochs(self, kind, expected):
        plan = warm_up_plan(kind, 4, self.group)
        assert [(np.flatnonzero(tasks).tolist(), epochs) for tasks, epochs in plan] == expected

    def test_ties_are_not_in_any_stage(self):
        assert warm_up_plan("iced", 4, certainty_groups(votes([1, 1], [1, 1]), 2)) == []


class TestQuotas:
    def test_by_hand(self):
        labels = np.repeat([0, 1, 2], [5, 1, 3])
        assert balancing_counts(labels, 4).tolist() == [0, 4, 2, 0]

    def test_balanced_needs_none(self):
        assert balancing_counts(np.array([0, 1, 1, 0]), 2).tolist() == [0, 0]

    def test_every_task_is_a_start_equally_often(self):
        labels = np.repeat([0, 1], [20, 6])
        made = interpolate_tasks(
            rng().normal(size=(26, 3)),
            labels,
            np.ones(26),
            balancing_counts(labels, 2),
            k=5,
            delta="uniform",
            noise=0.0,
            rng=rng(),
        )
        times = np.bincount(made.first, minlength=26)
        assert len(made.first) == 14
        assert (times[:20] == 0).all()
        assert set(times[20:]) == {2, 3}


class TestDelta:
    def test_by_hand(self):
        """S = 20 and 4: intended 4/24 (near the first, which is more certain), printed 20/24."""
        first, second = np.array([20.0, 4.0]), np.array([4.0, 20.0])
        np.testing.assert_allclose(interpolation_weights("intended", first, second, 0.0, rng()), [1 / 6, 5 / 6])
        np.testing.assert_allclose(interpolation_weights("printed", first, second, 0.0, rng()), [5 / 6, 1 / 6])

    def test_eta_is_uniform_around_it(self):
        one = np.full(20_000, 3.0)
        eta = interpolation_weights("intended", one, one, 0.05, rng()) - 0.5
        assert np.abs(eta).max() <= 0.05
        assert abs(eta.mean()) < 0.001
        np.testing.assert_allclose(eta.std(), 0.05 / np.sqrt(3), rtol=0.02)

    def test_delta_is_clipped_to_the_segment(self):
        delta = interpolation_weights("intended", np.full(1000, 1e6), np.full(1000, 1.0), 0.5, rng())
        assert delta.min() == 0
        assert delta.max() <= 0.5 + 1e-5

    def test_intended_is_nearer_to_the_more_certain_task_and_printed_to_the_less(self):
        z, labels = rng().normal(size=(40, 4)), np.zeros(40, np.int64)
        sure = certainty(rng(1).dirichlet([1, 1], size=40), 0.05)
        for kind, nearer_is_surer in (("intended", True), ("printed", False)):
            made = interpolate_tasks(z, labels, sure, np.array([300]), k=5, delta=kind, noise=0.0, rng=rng(2))
            point = made.apply(z)
            to_first = np.linalg.norm(point - z[made.first], axis=1)
            to_second = np.linalg.norm(point - z[made.second], axis=1)
            assert ((to_first < to_second) == ((sure[made.first] > sure[made.second]) == nearer_is_surer)).all()

    def test_uniform_is_smote(self):
        """SMOTE: a gap drawn from U(0, 1), regardless of certainty; checked against its distribution function."""
        delta = np.sort(interpolation_weights("uniform", np.full(5000, 20.0), np.full(5000, 3.0), 0.05, rng()))
        assert np.abs(delta - np.arange(5000) / 5000).max() < 1.63 / np.sqrt(5000)  # Kolmogorov's 1 % limit


class TestBetween:
    def test_on_the_segment_between_two_of_the_class(self):
        z, labels = rng().normal(size=(60, 5)), rng(1).integers(0, 3, 60)
        made = interpolate_tasks(
            z, labels, rng(2).uniform(3, 20, 60), np.array([30, 0, 30]), k=3, delta="intended", noise=0.05, rng=rng()
        )
        assert (labels[made.first] == np.repeat([0, 2], 30)).all()
        assert (labels[made.second] == labels[made.first]).all()
        assert (made.first != made.second).all()
        point = made.apply(z)
        whole = np.linalg.norm(z[made.second] - z[made.first], axis=1)
        parts = np.linalg.norm(point - z[made.first], axis=1) + np.linalg.norm(z[made.second] - point, axis=1)
        np.testing.assert_allclose(parts, whole)
        assert ((made.delta >= 0) & (made.delta <= 1)).all()

    def test_by_hand(self):
        point = Interpolation(np.array([0, 1]), np.array([1, 0]), np.array([0.25, 0.5])).apply(
            np.array([[0.0, 4.0], [8.0, 0.0]])
        )
        assert point.tolist() == [[2.0, 3.0], [4.0, 2.0]]

    def test_partners_are_among_the_k_nearest_of_the_class(self):
        """On a line, tasks of the other class lie nearer and do not count."""
        z = np.arange(12.0)[:, None]
        labels = np.arange(12) % 2
        made = interpolate_tasks(z, labels, np.ones(12), np.array([0, 60]), k=2, delta="uniform", noise=0.0, rng=rng())
        assert set(made.second[made.first == 5]) == {3, 7}
        assert set(made.second[made.first == 1]) == {3, 5}

    def test_only_candidates_are_interpolated(self):
        """A class without candidates uses all its tasks."""
        z, labels = rng().normal(size=(20, 2)), np.repeat([0, 1], 10)
        candidate = np.arange(20) < 4
        made = interpolate_tasks(z, labels, np.ones(20), np.array([40, 40]), k=9, delta="uniform", noise=0.0, rng=rng(),
                                 candidate=candidate)  # fmt: skip
        for c, expected in ((0, range(4)), (1, range(10, 20))):
            own = labels[made.first] == c
            assert set(made.first[own]) == set(made.second[own]) == set(expected)

    def test_a_class_of_one_is_repeated(self):
        z = rng().normal(size=(4, 2))
        made = interpolate_tasks(
            z, np.array([0, 0, 0, 1]), np.ones(4), np.array([0, 2]), k=5, delta="uniform", noise=0.0, rng=rng()
        )
        np.testing.assert_array_equal(made.apply(z), z[[3, 3]])

    def test_balanced_classes_need_no_synthetic_tasks(self):
        z = rng().normal(size=(4, 2))
        made = interpolate_tasks(
            z, np.array([0, 0, 1, 1]), np.ones(4), np.array([0, 0]), k=5, delta="intended", noise=0.1, rng=rng()
        )
        assert made.apply(z).shape == (0, 2)

    def test_nearest_in_a_sample(self):
        """Neighbours are the nearest in a sample of the points, and no point is its own neighbour."""
        points = rng(3).normal(size=(200, 2))
        near = nearest(points, None, 3, 50, rng(4))
        drawn = np.unique(near)
        assert len(drawn) <= 50
        away = np.linalg.norm(points[:, None] - points[drawn], axis=2)  # of those drawn that anyone is near to
        away[drawn, np.arange(len(drawn))] = np.inf
        reach = np.linalg.norm(points[:, None] - points[near], axis=2)
        np.testing.assert_allclose(reach, np.sort(away, axis=1)[:, :3])
        found = nearest(points, points[:5] + 1e-9, 3, 50, rng(4))
        assert set(found.ravel().tolist()) <= set(rng(4).choice(200, 50, replace=False).tolist())
        made = interpolate_tasks(points, np.zeros(200, int), np.ones(200), np.array([400]), k=3, delta="uniform",
                                 noise=0.0, rng=rng(), most=50)  # fmt: skip
        assert (made.first != made.second).all()
        assert len(np.unique(made.first)) == 200
        assert len(np.unique(made.second)) <= 50

    def test_nearest(self):
        points = np.array([[0.0], [1.0], [5.0]])
        assert nearest(points, np.array([[4.0], [0.4]]), 2, 9, rng()).tolist() == [[2, 1], [0, 1]]
        assert nearest(points, None, 9, 9, rng()).tolist() == [[1, 2], [0, 2], [1, 0]]


class TestSimulatedAnswers:
    """Worker 0 answered 1, 1, 0 to tasks 0, 1, 2; worker 1 answered 0 to task 0; worker 2 answered 1 to task 3."""

    real = Answers.from_codes([0, 1, 2, 0, 3], [0, 0, 0, 1, 2], [1, 1, 0, 0, 1], tasks=4, workers=3, classes=2)

    def test_majority_by_hand(self):
        made = simulate_answers(self.real, np.array([[0, 1, 2], [3, 2, 0]]), "majority", rng())
        assert made.task.tolist() == [0, 0, 1, 1, 1]
        assert made.worker.tolist() == [0, 1, 0, 1, 2]  # a worker without answers to the neighbours does not answer
        assert made.label[[0, 1, 3, 4]].tolist() == [1, 0, 0, 1]

    def test_frequency(self):
        """Worker 0 says 1 with probability 2/3 near tasks 0, 1, 2."""
        made = simulate_answers(self.real, np.tile([0, 1, 2], (6000, 1)), "frequency", rng())
        of_first = made.label[made.worker == 0]
        assert len(of_first) == 6000
        assert abs(of_first.mean() - 2 / 3) < 4 * np.sqrt(2 / 9 / 6000)
        assert (made.label[made.worker == 1] == 0).all()

    def test_ties_of_the_majority_are_broken_at_random(self):
        made = simulate_answers(self.real, np.tile([1, 2], (2000, 1)), "majority", rng())
        assert abs(made.label.mean() - 0.5) < 4 * 0.5 / np.sqrt(2000)

    def test_weights(self):
        weighted = Answers.from_codes(
            self.real.task, self.real.worker, self.real.label, tasks=4, workers=3, classes=2,
            weight=np.array([1.0, 9.0, 3.0, 8.0, 1.0])[[0, 1, 2, 3, 4]],
        )  # fmt: skip
        by = {(t, w): x for t, w, x in zip(weighted.task, weighted.worker, weighted.weight, strict=True)}
        made = simulate_answers(weighted, np.tile([0, 2], (8000, 1)), "frequency", rng())
        zero, two = by[0, 0], by[2, 0]
        of_first = made.worker == 0
        assert abs(made.label[of_first].mean() - zero / (zero + two)) < 0.02  # 1 at task 0, 0 at task 2
        assert (made.weight[of_first] == (zero + two) / 2).all()
        assert (made.weight[~of_first] == by[0, 1]).all()

    def test_every_synthetic_task_has_an_answer_and_no_worker_answers_twice(self):
        draw = rng()
        task, worker = np.nonzero(draw.random((50, 30)) < 0.1)
        task, worker = np.append(task, np.arange(50)), np.append(worker, np.full(50, 30))
        real = Answers.from_codes(task, worker, draw.integers(0, 4, len(task)), tasks=50, workers=31, classes=4)
        made = simulate_answers(real, draw.integers(0, 50, (200, 5)), "frequency", draw)
        assert (np.diff(made.task_starts) > 0).all()
        assert len(np.unique(made.task.astype(int) * 31 + made.worker)) == made.n_answers
