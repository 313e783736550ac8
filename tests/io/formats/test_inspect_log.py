"""Samples have the structure that inspect_ai 0.3.285 writes; the archive in fixtures/ is one of its own, shortened."""

from __future__ import annotations

from pathlib import Path

import pytest

from crowdwise import errors
from crowdwise.io import read, read_with_side_columns

ARCHIVE = Path(__file__).parents[2] / "fixtures" / "inspect_graded.eval"


def grade(value, model="a", **more):
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "GRADE", "model": model}]
    return {"value": value, "answer": "a reply", "metadata": {"grading": messages}} | more


def sample(number, epoch=1, target="", **scores):
    return {"id": number, "epoch": epoch, "input": f"question {number}", "target": target, "scores": scores}


def log(*samples, model="m", scorers=()):
    names = [{"name": name, "options": options} for name, options in scorers]
    return {"version": 2, "status": "success", "eval": {"model": model, "scorers": names}, "samples": list(samples)}


def test_an_archive_compressed_by_zstandard(rows):
    answers, side = read_with_side_columns(ARCHIVE)
    judge = "mockllm/judge-"
    assert rows(answers)[:4] == [("q0", f"{judge}a", "C"), ("q0", f"{judge}b", "C"), ("q1", f"{judge}a", "I"),
                                 ("q1", f"{judge}b", "C")]  # fmt: skip
    assert answers.abstentions == {f"{judge}a": 1}  # "Grade not found in model output: no verdict here"
    assert side.texts[0] == "Capital of country 0?"


def test_a_damaged_archive_is_rejected(put):
    data = bytearray(ARCHIVE.read_bytes())
    data[300] ^= 0xFF
    with pytest.raises(errors.FormatError, match=r"damaged.eval"):
        read(put("damaged.eval", bytes(data)))


def test_two_scorers_by_one_model_are_two_judges(put):
    answers = read(put("log.json", log(sample(1, model_graded_qa=grade("C"), model_graded_qa1=grade("I")))))
    assert answers.workers.tolist() == ["a (model_graded_qa)", "a (model_graded_qa1)"]


def test_a_scorer_with_several_models_has_a_vote_per_model(put, rows):
    score = grade("C", "a", reason=None)
    score["metadata"]["panel"] = {"votes": ["C", None], "size": 2, "failures": [{"index": 1}]}
    models = [("model_graded_qa", {"model": ["a", {"model": "b"}]})]
    answers = read(put("log.json", log(sample(1, model_graded_qa=score), scorers=models)))
    assert rows(answers) == [(1, "a", "C")]
    assert answers.abstentions == {"b": 1}


def test_a_grade_that_was_not_found_is_an_abstention_in_older_logs(put, rows):
    lost = grade("I", explanation="Grade not found in model output: I cannot say.")
    unnamed = {"value": "I", "answer": "x", "explanation": "Grade not found in model output: I cannot say."}
    wrong = grade("I", explanation="Not what was asked.\nGRADE: I")
    answers = read(put("log.json", log(sample(1, model_graded_qa=lost), sample(2, model_graded_qa=wrong))))
    assert rows(answers) == [(2, "a", "I")]
    assert answers.abstentions == {"a": 1}
    scorers = [("model_graded_fact", {"model": "b"})]
    pair = log(sample(1, model_graded_fact=unnamed), sample(2, model_graded_fact=unnamed | {"explanation": None}),
               scorers=scorers)  # fmt: skip
    answers = read(put("old.json", pair))
    assert rows(answers) == [(2, "b", "I")]
    assert answers.abstentions == {"b": 1}


def test_epochs_and_models_are_different_tasks(put):
    twice = log(sample("q", 1, model_graded_qa=grade("C")), sample("q", 2, model_graded_qa=grade("I")))
    assert read(put("one.json", twice)).tasks.tolist() == ["q/1", "q/2"]
    first, second = (log(sample("q", model_graded_qa=grade("C", j)), model=m) for j, m in (("a", "x"), ("b", "y")))
    assert read([put("x.json", first), put("y.json", second)]).tasks.tolist() == ["x/q", "y/q"]
    again = [put("x.json", first), put("z.json", log(sample("q", model_graded_qa=grade("C", "b")), model="x"))]
    assert read(again).tasks.tolist() == ["q"]  # the same replies, graded by another model


def test_models_that_choose_are_the_judges(put, rows):
    def choice(value, answer):
        return {"value": value, "answer": answer}

    lost = sample(2, target="B", choice=choice("I", ""))
    owl = log(sample(1, target="A", choice=choice("C", "A")), lost, model="owl")
    fox = log(sample(1, target="A", choice=choice("I", "B")), sample(2, target="B"), model="fox")
    files = [put("owl.json", owl), put("fox.json", fox)]
    answers = read(files)
    assert rows(answers) == [(1, "fox", "B"), (1, "owl", "A")]
    assert answers.abstentions == {"owl": 1, "fox": 1}
    assert (answers.truth.tolist(), answers.truth_is_gold) == ([0], False)
    assert rows(read(files[0], worker="scorer"))[0] == (1, "choice", "C")


def test_scores_that_are_not_by_models(put, rows):
    file = put("log.json", log(sample(1, model_graded_qa=grade("C"), match={"value": "I", "answer": "x"})))
    answers = read(file)
    assert rows(answers) == [(1, "a", "C")]
    assert answers.removed == {"scores of scorers that are not models (--question chooses them)": 1}
    assert rows(read(file, question="score")) == [(1, "match", "I")]
    parts = put("parts.json", log(sample(1, mine={"value": {"style": 2.0, "facts": 0.5}})))
    assert rows(read(parts, question="style")) == [(1, "mine", "2")]
    with pytest.raises(errors.QuestionError, match=r"'style', 'facts'"):
        read(parts)


@pytest.mark.parametrize("samples", [[3], [{"id": 1, "scores": 3}], [{"id": 1, "scores": {"x": 3}}], [{"scores": {}}]])
def test_unexpected_structures_are_rejected(put, samples):
    with pytest.raises(errors.FormatError):
        read(put("log.json", log(*samples)))


def test_only_scorer_or_model(put):
    with pytest.raises(errors.ParameterError, match="'scorer' or its 'model'"):
        read(put("log.json", log()), worker="judge")
