"""Feedback to workers: what is named, against counting by hand; what is not; and the words."""

import json
from dataclasses import replace

import numpy as np
import pytest

from crowdwise import Answers, DawidSkene
from crowdwise.errors import ParameterError, UnknownIdError
from crowdwise.io import write
from crowdwise.run import folder, folder_format
from crowdwise.run.feedback import feedback, feedback_all, in_need
from crowdwise.run.folder import Run
from crowdwise.run.tables.labels import Disagreement, Labelled, label_table
from crowdwise.run.tables.tasks import task_table
from crowdwise.run.tables.workers import judge
from crowdwise.simulate import answer, crowd, draw_truth
from crowdwise.truth.peer_quality import error_distribution, smoothed

CLASSES = ["city", "<i>street", "=coast", "forest"]
CONFUSED, GUESSES = 3, 5  # workers


def written(path, answers, texts=None):
    """A run folder of these answers, with what feedback reads."""
    path.mkdir()
    model = DawidSkene().fit(answers)
    labelled = Labelled(answers, model.proba_, model.codes_)
    quality = judge(*labelled)
    ranked = Disagreement(labelled, quality.column("quality").fill_null(0.5).to_numpy())
    write(label_table(labelled, ranked, 0.9), path / folder.LABELS)
    write(quality, path / folder.WORKERS)
    write(task_table(ranked, texts, {}), path / folder.TASKS)
    model.save(path / folder.MODEL)
    (path / folder.METRICS).write_text(json.dumps(folder_format.sealed(folder_format.empty(), path, folder.READ)))
    return Run(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    confusion = crowd(12, 4, "one-coin", accuracy=(0.8, 0.9), seed=3)
    confusion[CONFUSED] = np.eye(4) * 0.9 + 0.025
    confusion[CONFUSED, 1] = [0.02, 0.4, 0.56, 0.02]
    confusion[GUESSES] = 0.25
    answers = answer(draw_truth(600, 4, seed=0), confusion, 4, classes=CLASSES, seed=2)
    texts = [f"<b>task</b> {t} " + "x" * (t % 40) for t in range(600)]
    return written(tmp_path_factory.mktemp("runs") / "run", answers, texts)


def test_the_confusion_that_was_planted_comes_first(run):
    told = feedback(run, CONFUSED)
    first = told.confusions[0]
    assert (first.truth, first.said) == ("<i>street", "=coast")
    assert first.share == pytest.approx(0.56, abs=0.12)
    assert first.crowd_share < 0.15
    assert {"city", "forest"} <= {each.label for each in told.good_at}
    assert "<i>street" not in {each.label for each in told.good_at}


def test_counted_by_hand(run):
    answers, proba = run.answers, run.proba
    for code, told in enumerate(feedback_all(run)):
        mine = answers.worker == code
        for each in told.confusions:
            c, said = CLASSES.index(each.truth), CLASSES.index(each.said)
            belief = proba[answers.task, c]
            says = answers.label == said
            assert each.count == pytest.approx(belief[mine & says].sum())
            assert each.of == pytest.approx(belief[mine].sum())
            assert each.crowd_share == pytest.approx((belief[~mine & says].sum() + 0.25) / (belief[~mine].sum() + 1))
            assert each.share == pytest.approx((each.count + 2 * each.crowd_share) / (each.of + 2))
            assert each.count > each.of * each.crowd_share


def test_examples_are_sure_and_the_workers_own(run):
    answers, labels = run.answers, run.labels.to_pylist()
    texts = {row["task"]: row["text"] for row in run.tasks.to_pylist()}
    for code, told in enumerate(feedback_all(run, examples=4)):
        for each in told.confusions:
            said = answers.task[(answers.worker == code) & (answers.label == CLASSES.index(each.said))].tolist()
            fit = sorted((labels[t]["confidence"] for t in said if labels[t]["label"] == each.truth), reverse=True)
            assert [example.confidence for example in each.examples] == pytest.approx(fit[:4])
            for example in each.examples:
                assert example.task in said
                assert (example.label, example.text) == (each.truth, texts[example.task])


def test_who_is_like_the_others_is_told_so(run):
    """Of ten ordinary workers hardly one is told of a confusion."""
    usual = [told for told in feedback_all(run) if told.worker not in (CONFUSED, GUESSES)]
    assert sum(bool(told.confusions) for told in usual) <= 2
    unremarkable = next(told for told in usual if not told.confusions)
    assert "Nothing that you confuse stands out" in str(unremarkable)


def test_chance_is_not_taken_for_a_confusion(tmp_path):
    """Workers of one and the same matrix: about 1 in 20 is told anything."""
    confusion = np.repeat(crowd(1, 5, "class-dependent", accuracy=(0.7, 0.7), seed=1), 120, axis=0)
    run = written(tmp_path / "run", answer(draw_truth(1500, 5, seed=1), confusion, 4, seed=1))
    assert np.mean([bool(told.confusions) for told in feedback_all(run)]) < 0.1


def test_as_dict_is_plain(run):
    told = feedback(run, CONFUSED, examples=2, confusions=1).as_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert {"worker", "answers", "quality", "quality_low", "quality_high", "crowd_quality", "good_at", "words"} <= set(
        told
    )
    assert len(told["confusions"]) == 1
    assert set(told["confusions"][0]) == {"truth", "said", "count", "of", "share", "crowd_share", "examples"}
    assert [set(each) for each in told["confusions"][0]["examples"]] == [{"task", "text", "label", "confidence"}] * 2


def test_words(run):
    told = feedback(run, CONFUSED)
    first = told.confusions[0]
    text = str(told)
    assert f"You answered {told.answers} tasks" in text
    assert f"called {first.count:.0f} of {first.of:.0f} tasks '=coast' that are most likely '<i>street'" in text
    assert f"{first.examples[0].task} (<b>task</b>" in text
    assert f"{told.quality:.0%}".replace("%", " %") in text
    assert max(map(len, text.split("("))) < 300  # texts of tasks are cut
    assert "does not seem to depend on the task" in str(feedback(run, GUESSES))


def test_who_mixes_up_labels_is_asked_so_and_no_spammer(tmp_path):
    confusion = crowd(10, 3, "one-coin", accuracy=(0.85, 0.9), seed=0)
    confusion[0] = confusion[0][[1, 2, 0]]
    told = feedback(written(tmp_path / "run", answer(draw_truth(400, 3, seed=0), confusion, 5, seed=0)), 0)
    assert not told.spammer
    assert len(told.confusions) == 3
    assert "Did you mix up the labels?" in str(told)


def test_html_is_escaped(run):
    html = feedback(run, CONFUSED)._repr_html_()
    assert "&lt;b&gt;task" in html
    assert "<b>task" not in html
    assert "<i>street" not in html


def test_ids_by_text_and_near_matches(run, tmp_path):
    assert feedback(run, "7") == feedback(run, 7) == run.feedback(np.int64(7))
    with pytest.raises(UnknownIdError, match=r"no worker '33' in this run. Did you mean 3"):
        feedback(run, "33")
    named = Answers.from_arrays([1, 1, 2, 2], ["anna", "bert", "anna", "bert"], ["x", "x", "y", "y"])
    few = written(tmp_path / "named", named)
    with pytest.raises(UnknownIdError, match="Did you mean anna"):
        feedback(few, "ana")
    with pytest.raises(UnknownIdError, match="There are 2, such as anna and bert"):
        feedback(few, "zz")


def test_few_answers_make_no_certainty(tmp_path):
    """Two workers who contradict each other once, one who answered alone, one who did not answer."""
    answers = Answers.from_arrays(
        [1, 1, 2], ["a", "b", "c"], ["x", "y", "x"], tasks=[1, 2], workers=["a", "b", "c", "d"], classes=["x", "y"]
    )
    run = written(tmp_path / "run", answers)
    for worker in "abc":
        told = feedback(run, worker)
        assert told.confusions == told.good_at == ()
        assert "You answered 1 task. Too few" in str(told)
        assert "%" not in str(told)
    nobody = feedback(run, "d")
    assert nobody.words == ["You have not answered any task yet."]
    assert nobody.as_dict()["quality"] is None
    assert in_need(run).num_rows == 0


def test_nobody_is_praised_of_whom_nothing_is_known(tmp_path):
    """One answer a task: by his own answers everybody is right."""
    truth = draw_truth(100, 3, [0.8, 0.1, 0.1], seed=0)
    told = feedback_all(written(tmp_path / "run", answer(truth, crowd(5, 3, "one-coin", seed=0), 1, seed=0)))
    assert all(each.good_at == () and "Thank you" not in str(each) for each in told)


def test_a_spammer_is_not_thanked(tmp_path):
    """Always the common class: it is recognised better than by anybody else, and without looking."""
    confusion = crowd(12, 3, "one-coin", accuracy=(0.85, 0.9), seed=0)
    confusion[0] = np.eye(3)[0]
    run = written(tmp_path / "run", answer(draw_truth(600, 3, [0.8, 0.1, 0.1], seed=0), confusion, 4, seed=0))
    told = feedback(run, 0)
    assert told.spammer
    assert told.good_at == ()
    assert "Thank you" not in str(told)
    assert any(feedback(run, worker).good_at for worker in range(1, 12))


def test_praise_is_by_what_the_others_say(run):
    """Oracle: Bayes over the answers of the others, written out."""
    answers, proba = run.answers, run.proba
    counts = np.zeros((12, 4, 4))
    for t, w, label in zip(answers.task, answers.worker, answers.label, strict=True):
        counts[w, :, label] += proba[t]
    wrong = error_distribution(smoothed(counts.sum(axis=0)))
    quality = run.workers.column("quality").to_numpy()
    said = quality[:, None, None] * np.eye(4) + (1 - quality)[:, None, None] * wrong  # (workers, classes, labels)
    base = (proba.mean(axis=0) + np.bincount(answers.label) / answers.n_answers) / 2
    told = {code: {each.label: each for each in one.good_at} for code, one in enumerate(feedback_all(run))}
    counts[:] = 0
    for a, (t, w, label) in enumerate(zip(answers.task, answers.worker, answers.label, strict=True)):
        others = [b for b in np.flatnonzero(answers.task == t) if b != a]
        belief = base * np.prod([said[answers.worker[b], :, answers.label[b]] for b in others], axis=0)
        counts[w, :, label] += belief / belief.sum()
    usual = smoothed(counts.sum(axis=0)).diagonal()
    assert sum(map(len, told.values())) > 10
    for w, praised in told.items():
        for name, each in praised.items():
            c = CLASSES.index(name)
            of = counts[w, c].sum()
            assert each.of == pytest.approx(of)
            assert each.crowd_share == pytest.approx(usual[c])
            assert each.share == pytest.approx((counts[w, c, c] + 2 * usual[c]) / (of + 2))


def test_a_share_opens_a_sentence(run):
    told = feedback(run, 0)
    assert "tasks. About " in str(told)
    assert "tasks. Over 99 % of your" in str(replace(told, quality=0.995, quality_high=0.999))


def test_in_need(run):
    """Surely worse than the crowd, most right answers lost first."""
    table = in_need(run).to_pylist()
    crowd_quality = feedback(run, 0).crowd_quality
    assert table[0]["worker"] == GUESSES
    assert all(row["quality_high"] < crowd_quality for row in table)
    assert [row["lost"] for row in table] == sorted((row["lost"] for row in table), reverse=True)
    assert table[0]["lost"] == pytest.approx(table[0]["answers"] * (crowd_quality - table[0]["quality"]))
    workers = run.workers.to_pylist()
    weight = sum(row["answers"] for row in workers)
    assert crowd_quality == pytest.approx(sum(row["answers"] * row["quality"] for row in workers) / weight)


def test_limits(run):
    assert feedback(run, CONFUSED, examples=0).confusions[0].examples == ()
    assert feedback(run, CONFUSED, confusions=0).confusions == ()
    for wrong in ({"examples": -1}, {"confusions": 1.5}):
        with pytest.raises(ParameterError, match="use a whole number"):
            feedback(run, CONFUSED, **wrong)
