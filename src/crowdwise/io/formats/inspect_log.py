"""Logs of Inspect (`inspect_ai`), as `.eval` archives or JSON: the verdicts of language models as judges.

Either the scorers are the judges, or the model that was evaluated is. `worker=` says which; by default, the scorers are
unless they only extract the model's answer (`choice`, `pattern`, ...).

    worker="scorer"   the worker is the model that graded (or the scorer's name), the label its grade, such as C or I; a
                      scorer with several models has one vote per model
    worker="model"    the worker is the model evaluated, the label the answer that the scorer extracted, and the
                      sample's target the known label

The task is the sample, `id/epoch` if there are several epochs. A grade that was not found, an answer that could not be
extracted and a sample that failed are abstentions of the judge. Older versions write a grade that was not found as
`I`, with an explanation that says so: that is an abstention too. Reading several logs, in which different models were
graded, puts the model before the task.

An `.eval` file is a zip with one JSON file per sample. Recent ones are compressed by Zstandard, which `zipfile` cannot
read before Python 3.14; Arrow can.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from crowdwise.errors import FormatError, ParameterError, TooLargeError
from crowdwise.io.files import check_unpacked
from crowdwise.io.json_records import AnswerCollector, check_type, choose_question, first_field, load_json
from crowdwise.io.raw_columns import ChooseColumns, RawColumns

JUDGES = ("scorer", "model")
EXTRACTORS = {"choice", "pattern", "match", "answer", "exact"}  # scorers that extract an answer, and judge nothing
ZSTANDARD = 93  # compression method of a zip member
LOCAL_HEADER = 30  # bytes before the name of a zip member
MAX_MEMBER = 1 << 30  # bytes of a sample
NOT_FOUND = "Grade not found in model output"  # start of the explanation of a grade that could not be parsed
_OTHER = "score"  # the question of scorers that do not say which model graded


class Verdict(NamedTuple):
    """A grade as found in a sample."""

    sample: Mapping[str, Any]
    scorer: str
    question: str
    judge: str | None  # the model that graded, if the log says so
    value: Any


def read_inspect(
    path: Path, *, question: str | None = None, worker: str | None = None, choose_side: ChooseColumns | None = None
) -> RawColumns:
    """Read the verdicts of one log."""
    if worker not in (None, *JUDGES):
        message = f"worker={worker!r}: the judges of an Inspect log are its 'scorer' or its 'model'."
        raise ParameterError(message)
    run, samples = _load_archive(path) if zipfile.is_zipfile(path) else _load_document(path)
    out = AnswerCollector(choose_side)
    if (worker or _judges(run, samples)) == "model":
        _read_answers(out, run, samples, question)
        return out.raw()
    _read_grades(out, run, samples, question)
    return out.raw(scope=_model(run))


def _read_answers(
    out: AnswerCollector, run: Mapping[str, Any], samples: list[dict[str, Any]], question: str | None
) -> None:
    """Add the answers of the model that was evaluated."""
    judge = _model(run)
    name = choose_question((scorer for sample in samples for scorer in sample["scores"]), question)
    for sample in samples:
        task = sample["id"]
        target = sample.get("target")
        if isinstance(target, (str, int)) and target != "":
            out.target(task, str(target))
        score = sample["scores"].get(name)
        out.verdict(task, judge, None if score is None else score.get("answer"), _fields(sample))


def _read_grades(
    out: AnswerCollector, run: Mapping[str, Any], samples: list[dict[str, Any]], question: str | None
) -> None:
    """Add the grades of the scorers."""
    several = any(sample.get("epoch", 1) != 1 for sample in samples)
    grades = [grade for sample in samples for grade in _grades(sample)]
    models = _graders(run) | {grade.scorer: grade.judge for grade in grades if grade.judge is not None}
    by_models = [grade for grade in grades if models.get(grade.scorer) is not None]
    if by_models and question is None:
        if len(by_models) < len(grades):
            out.skip("scores of scorers that are not models (--question chooses them)", len(grades) - len(by_models))
        grades = by_models
    name = choose_question((grade.question for grade in grades), question)
    judges = {(grade.scorer, grade.judge or models.get(grade.scorer)) for grade in grades if grade.question == name}
    times = Counter(judge for _, judge in judges)  # one model may grade in two scorers, with different prompts
    for sample, scorer, asked, judge, value in grades:
        if asked != name:
            continue
        model = judge or models.get(scorer)
        who = scorer if model is None else f"{model} ({scorer})" if times[model] > 1 else model
        task = f"{sample['id']}/{sample.get('epoch', 1)}" if several else sample["id"]
        out.verdict(task, who, value, _fields(sample))
    failed = sum(not sample["scores"] for sample in samples)
    if failed:
        out.skip("samples without a score", failed)


def _grades(sample: dict[str, Any]) -> Iterator[Verdict]:
    """Yield the grades of a sample, one per scorer and model."""
    for scorer, score in sample["scores"].items():
        details = score.get("metadata") if isinstance(score.get("metadata"), dict) else {}
        votes = details["panel"].get("votes") if isinstance(details.get("panel"), dict) else None
        grading = details.get("grading")
        question = scorer.rstrip("0123456789") or scorer  # Inspect numbers scorers of one name
        if isinstance(votes, list) and votes:
            for number, vote in enumerate(votes):
                yield Verdict(sample, f"{scorer}[{number}]", question, None, vote)
        elif isinstance(grading, list):
            models = [m.get("model") for m in grading if isinstance(m, dict) and isinstance(m.get("model"), str)]
            yield Verdict(sample, scorer, question, models[-1] if models else None, _grade(score))
        elif isinstance(score.get("value"), dict):
            for part, value in score["value"].items():
                yield Verdict(sample, scorer, str(part), None, value)
        else:
            yield Verdict(sample, scorer, _OTHER, None, _grade(score))


def _grade(score: Mapping[str, Any]) -> Any:
    """Return the grade of a score, or None if the judge's reply held none."""
    unparsed = str(score.get("explanation") or "").startswith(NOT_FOUND)
    return None if unparsed else score.get("value")


def _graders(run: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the model of each scorer, as far as the options of the evaluation name it."""
    out: dict[str, str | None] = {}
    seen: Counter[str] = Counter()
    for scorer in _scorers(run):
        name = str(scorer.get("name")).rpartition("/")[2]
        key = f"{name}{seen[name] or ''}"
        seen[name] += 1
        options = scorer.get("options")
        models = options.get("model") if isinstance(options, dict) else None
        if isinstance(models, list):
            out |= {f"{key}[{number}]": _name(model) for number, model in enumerate(models)}
        elif models is not None:
            out[key] = _name(models)
    return out


def _scorers(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the scorers that the log declares."""
    scorers = check_type(run.get("scorers") or [], list, "'scorers' of the log")
    return [scorer for scorer in scorers if isinstance(scorer, dict)]


def _name(model: Any) -> str | None:
    """Return the name of a model, written as text or as an object."""
    name = model.get("model") if isinstance(model, dict) else model
    return name if isinstance(name, str) else None


def _judges(run: Mapping[str, Any], samples: list[dict[str, Any]]) -> str:
    """Return who the judges are, as far as the log shows."""
    scorers = {scorer.rstrip("0123456789") for sample in samples for scorer in sample["scores"]}
    declared = {str(scorer.get("name")).rpartition("/")[2] for scorer in _scorers(run)}
    return "model" if (scorers or declared) and (scorers or declared) <= EXTRACTORS else "scorer"


def _model(run: Mapping[str, Any]) -> str:
    return check_type(run.get("model"), str, "'eval.model'")


def _fields(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return the side fields of a sample."""
    return {"text": sample.get("input")}


def _check(sample: Any, where: str) -> dict[str, Any]:
    """Return the parts of a sample that are used."""
    checked = check_type(sample, dict, where)
    scores = check_type(checked.get("scores") or {}, dict, f"'scores' of {where}")
    names = ("input", "target", "epoch")
    return {name: checked[name] for name in names if name in checked} | {
        "id": first_field(checked, ["id"], "task", where),
        "scores": {name: check_type(score, dict, f"score {name!r} of {where}") for name, score in scores.items()},
    }


def _load_document(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what was evaluated, and the samples, of a JSON log."""
    log = check_type(load_json(path), dict, "the log")
    samples = check_type(log.get("samples") or [], list, "'samples'")
    run = check_type(log.get("eval"), dict, "'eval'")
    return run, [_check(sample, f"sample {number} (counted from 0)") for number, sample in enumerate(samples)]


def _load_archive(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what was evaluated, and the samples, of an `.eval` archive."""
    with zipfile.ZipFile(path) as archive:
        members = {member.filename: member for member in archive.infolist()}  # of two with one name, the later counts
        check_unpacked(sum(member.file_size for member in members.values()), path.stat().st_size)
        start = next((name for name in ("header.json", "_journal/start.json") if name in members), None)
        if start is None:
            message = f"expected the header.json of an Inspect log, found {', '.join(list(members)[:3]) or 'nothing'}."
            raise FormatError(message)
        run = check_type(_load_member(path, archive, members[start]), dict, start).get("eval")
        names = [name for name in members if name.startswith("samples/") and name.endswith(".json")]
        samples = [_check(_load_member(path, archive, members[name]), name) for name in names]
    return check_type(run, dict, "'eval'"), samples


def _load_member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    """Parse a member of the archive."""
    if member.file_size > MAX_MEMBER:
        message = f"{member.filename} unpacks to {member.file_size:,} bytes, more than the {MAX_MEMBER:,} allowed."
        raise TooLargeError(message)
    data = _unpack_zstandard(path, member) if member.compress_type == ZSTANDARD else archive.read(member)
    try:
        return json.loads(data)
    except ValueError as error:
        message = f"its member {member.filename} is not JSON: {error}."
        raise FormatError(message) from None


def _unpack_zstandard(path: Path, member: zipfile.ZipInfo) -> bytes:
    with path.open("rb") as stream:
        stream.seek(member.header_offset)
        header = stream.read(LOCAL_HEADER)
        if len(header) < LOCAL_HEADER or not header.startswith(b"PK\3\4"):
            message = f"its member {member.filename} is damaged."
            raise FormatError(message)
        name, extra = struct.unpack("<HH", header[26:30])
        stream.seek(name + extra, 1)
        packed = stream.read(member.compress_size)
    with pa.input_stream(pa.py_buffer(packed), compression="zstd") as unpacked:
        data = unpacked.read(member.file_size + 1)
    if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        message = f"its member {member.filename} is damaged: the checksum differs."
        raise FormatError(message)
    return bytes(data)
