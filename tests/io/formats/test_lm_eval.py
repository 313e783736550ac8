"""Samples have the structure that lm_eval 0.4.13 writes."""

from __future__ import annotations

import json

import pytest

from crowdwise import errors
from crowdwise.io import read, read_with_side_columns

DATE = "2026-11-18T17-53-15.621361"


def generated(number, response, target="yes", filter="strict-match"):
    arguments = {"gen_args_0": {"arg_0": f"Is {number} polite?", "arg_1": {"until": ["\n\n"]}}}
    return {"doc_id": number, "doc": {"key": f"k{number}"}, "target": target, "arguments": arguments,
            "resps": [["..."]], "filtered_resps": [response], "filter": filter, "metrics": ["acc"]}  # fmt: skip


def chosen(number, likelihoods, choices=(" no", " yes"), target="1"):
    arguments = {f"gen_args_{i}": {"arg_0": "Is it?", "arg_1": choice} for i, choice in enumerate(choices)}
    responses = [[str(value), "False"] for value in likelihoods]
    return {**generated(number, None, target, "none"), "arguments": arguments, "filtered_resps": responses}


def put_samples(folder, model, task, samples, *, results=True):
    (folder / model).mkdir(exist_ok=True)
    file = folder / model / f"samples_{task}_{DATE}.jsonl"
    file.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    if results:
        averages = {"results": {}, "configs": {}, "n-shot": {}, "model_name": f"org/{model}"}
        (folder / model / f"results_{DATE}.json").write_text(json.dumps(averages))
    return file


def test_generated_answers_of_two_models(tmp_path, rows):
    put_samples(tmp_path, "a", "polite", [generated(0, "yes"), generated(1, "[invalid]", "no"), generated(2, " no ")])
    put_samples(
        tmp_path, "b", "polite", [generated(0, "no"), generated(1, "no", "no"), generated(2, "")], results=False
    )
    answers, side = read_with_side_columns(str(tmp_path / "*" / "samples_*"))
    assert rows(answers) == [(0, "b", "no"), (0, "org/a", "yes"), (1, "b", "no"), (2, "org/a", "no")]
    assert answers.abstentions == {"org/a": 1, "b": 1}
    assert ([answers.classes[code] for code in answers.truth], answers.truth_is_gold) == (["yes", "no", "yes"], False)
    assert side.texts[0] == "Is 0 polite?"


def test_choices(tmp_path, rows):
    same = [chosen(0, [-1, -2]), chosen(1, [-3.5, -1], target="0"), chosen(2, ["nan", -1])]
    answers = read(put_samples(tmp_path, "a", "mc", same))
    assert rows(answers) == [(0, "org/a", "no"), (1, "org/a", "yes")]
    assert answers.truth.tolist() == [1, 0]
    assert answers.abstentions == {"org/a": 1}
    other = [chosen(0, [-1, -2], (" cat", " dog")), chosen(1, [-2, -1], (" ten", " two"))]
    assert rows(read(put_samples(tmp_path, "a", "mc", other))) == [(0, "org/a", "0"), (1, "org/a", "1")]
    normalised = chosen(0, [-2, -1, -9, -8])
    normalised["arguments"] |= {f"gen_args_{i + 2}": {"arg_0": "", "arg_1": c} for i, c in enumerate((" no", " yes"))}
    assert rows(read(put_samples(tmp_path, "a", "mc", [normalised]))) == [(0, "org/a", "yes")]


def test_a_results_file_stands_for_its_samples(tmp_path):
    put_samples(tmp_path, "a", "polite", [generated(0, "yes")])
    put_samples(tmp_path, "a", "kind", [generated(0, "no")])
    for path in (tmp_path / "a" / f"results_{DATE}.json", tmp_path / "a"):  # a folder contains both
        assert read(path).tasks.tolist() == ["kind/0", "polite/0"]
    alone = tmp_path / f"results_{DATE}.json"
    alone.write_bytes((tmp_path / "a" / alone.name).read_bytes())
    with pytest.raises(errors.FormatError, match="--log_samples"):
        read(alone)


def test_filters_fields_and_models_in_one_file(tmp_path, rows):
    both = [generated(0, "yes") | {"by": "x"}, generated(0, "no", filter="flexible") | {"by": "x"}]
    file = put_samples(tmp_path, "a", "polite", both)
    with pytest.raises(errors.QuestionError, match="'strict-match', 'flexible'"):
        read(file)
    assert rows(read(file, question="flexible", task="key", worker="by")) == [("k0", "x", "no")]


@pytest.mark.parametrize(
    "sample", [generated(0, ["yes", "no"]), generated(None, "yes"), generated(0, "x") | {"doc": 3},
               generated(0, "x") | {"arguments": 3}, generated(0, "x") | {"filtered_resps": "x"}],
)  # fmt: skip
def test_unexpected_structures_are_rejected(tmp_path, sample):
    with pytest.raises(errors.FormatError, match="line 1"):
        read(put_samples(tmp_path, "a", "polite", [sample]))
