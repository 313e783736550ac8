"""The table of formats that `read` supports, also used by the command line, error messages and tests."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

LONG = ("task", "worker", "label", "truth", "weight", "pseudo")  # the column options of a long table


@dataclass(frozen=True)
class Format:
    """A file format and the options of its reader."""

    name: str
    home: str  # module:function in crowdwise.io.formats, imported on first use
    what: str
    takes: tuple[str, ...] = ()  # the options it has: question=, task=, worker=, ...
    inputs: str | None = None  # prefix of the names of a task's fields; None: the format has no side columns
    quoted: bool = False  # whether cells are quoted text, which may contain line breaks (multiline=)
    files: str | None = None  # module:function that replaces the files named by those to read

    @property
    def long(self) -> bool:
        """Whether it is a plain table with one row per answer."""
        return self.takes == LONG

    def load(self) -> Any:
        """Import and return the reader function."""
        return _load(self.home)

    def select(self, paths: list[Path]) -> list[Path]:
        """Return the files to read, given those that the user named."""
        return paths if self.files is None else _load(self.files)(paths)


def _load(home: str) -> Any:
    module, function = home.split(":")
    return getattr(import_module(f"crowdwise.io.formats.{module}"), function)


_FORMATS = (
    Format(
        "csv", "delimited:read_csv", "one row per answer, separated by commas or semicolons; also .gz", LONG, "", True
    ),
    Format("tsv", "delimited:read_tsv", "the same, separated by tabs", LONG, "", True),
    Format("parquet", "parquet:read_parquet", "Parquet table, one row per answer", LONG, ""),
    Format("jsonl", "jsonl:read_jsonl", "one JSON object per line and answer; also .gz", LONG, ""),
    Format("label-studio", "label_studio:read_label_studio", "Label Studio JSON export", ("question",), "data."),
    Format(
        "argilla", "argilla:read_argilla", "Argilla 2 or 1 records, JSON, JSONL or Parquet", ("question", "task"), ""
    ),
    Format("prodigy", "prodigy:read_prodigy", "Prodigy JSONL export", ("question", "worker"), ""),
    Format(
        "mturk", "mturk:read_mturk", "Mechanical Turk batch results, CSV", ("question", "task", "truth"), "Input.", True
    ),
    Format("toloka", "toloka:read_toloka", "Toloka results, TSV", ("question", "task"), "INPUT:", True),
    Format(
        "ground-truth", "ground_truth:read_ground_truth", "SageMaker Ground Truth manifest", ("question", "task"), ""
    ),
    Format("peerannot", "peerannot:read_by_task", "answers.json, task -> worker -> label"),
    Format("peerannot-by-worker", "peerannot:read_by_worker", "answers.json, worker -> task -> label"),
    Format(
        "matrix",
        "matrix:read_matrix",
        "text matrix of Rodrigues, one line per task, one column per worker, -1 for no answer",
    ),
    Format(
        "cleanlab",
        "cleanlab:read_cleanlab",
        "wide CSV or Parquet, one row per task, one column per worker",
        ("task",),
        quoted=True,
    ),
    Format("doccano", "doccano:read_doccano", "zip of <username>.jsonl", ("task",), ""),
    Format("inspect", "inspect_log:read_inspect", "Inspect log, .eval or .json", ("question", "worker"), ""),
    Format(
        "promptfoo",
        "promptfoo:read_promptfoo",
        "promptfoo results, .json or .jsonl",
        ("question", "task", "worker"),
        "",
    ),
    Format("deepeval", "deepeval:read_deepeval", "DeepEval test run, JSON", ("question", "worker"), ""),
    Format(
        "lm-eval",
        "lm_eval:read_lm_eval",
        "lm-evaluation-harness samples_*.jsonl, or the results file next to them",
        ("question", "task", "worker"),
        "",
        files="lm_eval:sample_files",
    ),
)

FORMATS = {form.name: form for form in _FORMATS}
