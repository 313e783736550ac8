"""Feedback to workers: which confusions are reported, compared with counts by hand, and in which words."""

import json
from dataclasses import replace

import numpy as np
import pytest

from crowdwise import Answers
from crowdwise.errors import ParameterError, UnknownIdError
from crowdwise.run.feedback import feedback, feedback_all, workers_below_crowd
from crowdwise.simulate import answer, crowd, draw_truth
from crowdwise.truth.peer_quality import error_distribution, smoothed
from tests.helpers.report_folders import build_for_feedback

CLASSES = ["city", "<i>street", "=coast", "forest"]
CONFUSED, GUESSES = 3, 5  # workers


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    confusion = crowd(12, 4, "one-coin", accuracy=(0.8, 0.9), seed=3)
    confusion[CONFUSED] = np.eye(4) * 0.9 + 0.025
    confusion[CONFUSED, 1] = [0.02, 0.4, 0.56, 0.02]
    confusion[GUESSES] = 0.25
    answers = answer(draw_truth(600, 4, seed=0), confusion, 4, classes=CLASSES, seed=2)
    texts = [f"<b>task</b> {t} " + "x" * (t % 40) for t in range(600)]
    return build_for_feedback(tmp_path_factory.mktemp("runs") / "run", answers, texts)


def test_a_planted_confusion_is_reported_first(run):
    result = feedback(run, CONFUSED)
    first = result.confusions[0]
    assert (first.truth, first.said) == ("<i>street", "=coast")
    assert first.share == pytest.approx(0.56, abs=0.12)
    assert first.crowd_share < 0.15
    assert {"city", "forest"} <= {each.label for each in result.good_at}
    assert "<i>street" not in {each.label for each in result.good_at}


def test_shares_equal_those_counted_by_hand(run):
    answers, proba = run.answers, run.proba
    for code, result in enumerate(feedback_all(run)):
        mine = answers.worker == code
        for each in result.confusions:
            c, said = CLASSES.index(each.truth), CLASSES.index(each.said)
            belief = proba[answers.task, c]
            says = answers.label == said
            assert each.count == pytest.approx(belief[mine & says].sum())
            assert each.of == pytest.approx(belief[mine].sum())
            assert each.crowd_share == pytest.approx((belief[~mine & says].sum() + 0.25) / (belief[~mine].sum() + 1))
            assert each.share == pytest.approx((each.count + 2 * each.crowd_share) / (each.of + 2))
            assert each.count > each.of * each.crowd_share


def test_examples_are_the_workers_own_answers_of_highest_confidence(run):
    answers, labels = run.answers, run.labels.to_pylist()
    texts = {row["task"]: row["text"] for row in run.tasks.to_pylist()}
    for code, result in enumerate(feedback_all(run, examples=4)):
        for each in result.confusions:
            said = answers.task[(answers.worker == code) & (answers.label == CLASSES.index(each.said))].tolist()
            fit = sorted((labels[t]["confidence"] for t in said if labels[t]["label"] == each.truth), reverse=True)
            assert [example.confidence for example in each.examples] == pytest.approx(fit[:4])
            for example in each.examples:
                assert example.task in said
                assert (example.label, example.text) == (each.truth, texts[example.task])


def test_ordinary_workers_get_no_confusions(run):
    usual = [result for result in feedback_all(run) if result.worker not in (CONFUSED, GUESSES)]
    assert sum(bool(result.confusions) for result in usual) <= 2
    unremarkable = next(result for result in usual if not result.confusions)
    assert "You do not confuse any classes more often than others do." in str(unremarkable)


def test_about_one_in_twenty_identical_workers_gets_a_false_report(tmp_path):
    confusion = np.repeat(crowd(1, 5, "class-dependent", accuracy=(0.7, 0.7), seed=1), 120, axis=0)
    run = build_for_feedback(tmp_path / "run", answer(draw_truth(1500, 5, seed=1), confusion, 4, seed=1))
    assert np.mean([bool(result.confusions) for result in feedback_all(run)]) < 0.1


def test_as_dict_is_plain_json(run):
    result = feedback(run, CONFUSED, examples=2, confusions=1).as_dict()
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert {"worker", "answers", "quality", "quality_low", "quality_high", "crowd_quality", "good_at", "words"} <= set(
        result
    )
    assert len(result["confusions"]) == 1
    assert set(result["confusions"][0]) == {"truth", "said", "count", "of", "share", "crowd_share", "examples"}
    assert [set(each) for each in result["confusions"][0]["examples"]] == [{"task", "text", "label", "confidence"}] * 2


def test_the_text_names_counts_classes_and_examples(run):
    result = feedback(run, CONFUSED)
    first = result.confusions[0]
    text = str(result)
    assert f"You answered {result.answers} tasks" in text
    assert f"labelled {first.count:.0f} of {first.of:.0f} tasks '=coast' that are most likely '<i>street'" in text
    assert f"{first.examples[0].task} (<b>task</b>" in text
    assert f"{result.quality:.0%}" in text
    assert max(map(len, text.split("("))) < 300  # texts of tasks are cut short
    assert "do not seem to depend on the task" in str(feedback(run, GUESSES))


def test_a_worker_who_mixes_up_labels_is_not_a_spammer(tmp_path):
    confusion = crowd(10, 3, "one-coin", accuracy=(0.85, 0.9), seed=0)
    confusion[0] = confusion[0][[1, 2, 0]]
    result = feedback(build_for_feedback(tmp_path / "run", answer(draw_truth(400, 3, seed=0), confusion, 5, seed=0)), 0)
    assert not result.spammer
    assert len(result.confusions) == 3
    assert "Did you mix up the labels?" in str(result)


def test_html_is_escaped(run):
    html = feedback(run, CONFUSED)._repr_html_()
    assert "&lt;b&gt;task" in html
    assert "<b>task" not in html
    assert "<i>street" not in html


def test_workers_are_found_by_text_and_unknown_ones_get_suggestions(run, tmp_path):
    assert feedback(run, "7") == feedback(run, 7) == run.feedback(np.int64(7))
    with pytest.raises(UnknownIdError, match=r"No worker '33' in this run. Did you mean 3"):
        feedback(run, "33")
    named = Answers.from_arrays([1, 1, 2, 2], ["anna", "bert", "anna", "bert"], ["x", "x", "y", "y"])
    few = build_for_feedback(tmp_path / "named", named)
    with pytest.raises(UnknownIdError, match="Did you mean anna"):
        feedback(few, "ana")
    with pytest.raises(UnknownIdError, match="It has 2 workers, such as anna and bert"):
        feedback(few, "zz")


def test_few_answers_give_no_figures(tmp_path):
    """Two workers contradict each other once, one answered alone, one did not answer."""
    answers = Answers.from_arrays(
        [1, 1, 2], ["a", "b", "c"], ["x", "y", "x"], tasks=[1, 2], workers=["a", "b", "c", "d"], classes=["x", "y"]
    )
    run = build_for_feedback(tmp_path / "run", answers)
    for worker in "abc":
        result = feedback(run, worker)
        assert result.confusions == result.good_at == ()
        assert "You answered 1 task. The answers of others are too few" in str(result)
        assert "%" not in str(result)
    nobody = feedback(run, "d")
    assert nobody.words == ["You have not answered any task yet."]
    assert nobody.as_dict()["quality"] is None
    assert workers_below_crowd(run).num_rows == 0


def test_workers_without_shared_tasks_are_not_praised(tmp_path):
    """With one answer per task, everybody is right by their own answers."""
    truth = draw_truth(100, 3, [0.8, 0.1, 0.1], seed=0)
    result = feedback_all(
        build_for_feedback(tmp_path / "run", answer(truth, crowd(5, 3, "one-coin", seed=0), 1, seed=0))
    )
    assert all(each.good_at == () and "Thank you" not in str(each) for each in result)


def test_a_spammer_is_not_praised(tmp_path):
    """Always answering the common class recognises it better than anybody else does."""
    confusion = crowd(12, 3, "one-coin", accuracy=(0.85, 0.9), seed=0)
    confusion[0] = np.eye(3)[0]
    run = build_for_feedback(
        tmp_path / "run", answer(draw_truth(600, 3, [0.8, 0.1, 0.1], seed=0), confusion, 4, seed=0)
    )
    result = feedback(run, 0)
    assert result.spammer
    assert result.good_at == ()
    assert "Thank you" not in str(result) and "of your answers are right" not in str(result)
    assert any(feedback(run, worker).good_at for worker in range(1, 12))


def test_praise_is_based_on_the_answers_of_others(run):
    """Oracle: Bayes' rule over the answers of the other workers, written out."""
    answers, proba = run.answers, run.proba
    counts = np.zeros((12, 4, 4))
    for t, w, label in zip(answers.task, answers.worker, answers.label, strict=True):
        counts[w, :, label] += proba[t]
    wrong = error_distribution(smoothed(counts.sum(axis=0)))
    quality = run.workers.column("quality").to_numpy()
    said = quality[:, None, None] * np.eye(4) + (1 - quality)[:, None, None] * wrong  # (workers, classes, labels)
    base = (proba.mean(axis=0) + np.bincount(answers.label) / answers.n_answers) / 2
    result = {code: {each.label: each for each in one.good_at} for code, one in enumerate(feedback_all(run))}
    counts[:] = 0
    for a, (t, w, label) in enumerate(zip(answers.task, answers.worker, answers.label, strict=True)):
        others = [b for b in np.flatnonzero(answers.task == t) if b != a]
        belief = base * np.prod([said[answers.worker[b], :, answers.label[b]] for b in others], axis=0)
        counts[w, :, label] += belief / belief.sum()
    usual = smoothed(counts.sum(axis=0)).diagonal()
    assert sum(map(len, result.values())) > 10
    for w, praised in result.items():
        for name, each in praised.items():
            c = CLASSES.index(name)
            of = counts[w, c].sum()
            assert each.of == pytest.approx(of)
            assert each.crowd_share == pytest.approx(usual[c])
            assert each.share == pytest.approx((counts[w, c, c] + 2 * usual[c]) / (of + 2))


def test_a_share_at_the_start_of_a_sentence_is_capitalised(run):
    result = feedback(run, 0)
    assert "tasks. About " in str(result)
    assert "tasks. Over 99% of your" in str(replace(result, quality=0.995, quality_high=0.999))


def test_workers_below_the_crowd_are_sorted_by_right_answers_lost(run):
    table = workers_below_crowd(run).to_pylist()
    crowd_quality = feedback(run, 0).crowd_quality
    assert table[0]["worker"] == GUESSES
    assert all(row["quality_high"] < crowd_quality for row in table)
    assert [row["lost"] for row in table] == sorted((row["lost"] for row in table), reverse=True)
    assert table[0]["lost"] == pytest.approx(table[0]["answers"] * (crowd_quality - table[0]["quality"]))
    workers = run.workers.to_pylist()
    weight = sum(row["answers"] for row in workers)
    assert crowd_quality == pytest.approx(sum(row["answers"] * row["quality"] for row in workers) / weight)


def test_numbers_of_examples_and_confusions_are_limited(run):
    assert feedback(run, CONFUSED, examples=0).confusions[0].examples == ()
    assert feedback(run, CONFUSED, confusions=0).confusions == ()
    for wrong in ({"examples": -1}, {"confusions": 1.5}):
        with pytest.raises(ParameterError, match="use an integer"):
            feedback(run, CONFUSED, **wrong)
