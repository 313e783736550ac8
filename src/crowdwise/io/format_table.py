"""The table of formats `read` knows. The command line, the error messages and the tests all read this one."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

LONG = ("task", "worker", "label", "truth", "weight", "pseudo")  # the columns a long table may name


@dataclass(frozen=True)
class Format:
    """One line of the table."""

    name: str
    home: str  # module in this room, and function: imported only when the format is read
    what: str
    takes: tuple[str, ...] = ()  # which of question=, task=, worker=, ... mean something here
    inputs: str | None = None  # what precedes the names of a task's own fields, for `read_beside`; None: it has none

    @property
    def long(self) -> bool:
        """Whether it is a plain table with a row for each answer."""
        return self.takes == LONG

    def load(self) -> Any:
        """The function itself."""
        module, function = self.home.split(":")
        return getattr(import_module(f"crowdwise.io.formats.{module}"), function)


_FORMATS = (
    Format("csv", "delimited:read_csv", "a row an answer, commas or semicolons between cells; .gz too", LONG, ""),
    Format("tsv", "delimited:read_tsv", "the same with tabs", LONG, ""),
    Format("parquet", "parquet:read_parquet", "a row an answer, Parquet", LONG, ""),
    Format("jsonl", "jsonl:read_jsonl", "a JSON object an answer, one a line; .gz too", LONG, ""),
    Format("label-studio", "label_studio:read_label_studio", "Label Studio JSON export", ("question",), "data."),
    Format(
        "argilla", "argilla:read_argilla", "Argilla 2 or 1 records, JSON, JSONL or Parquet", ("question", "task"), ""
    ),
    Format("prodigy", "prodigy:read_prodigy", "Prodigy JSONL export", ("question", "worker"), ""),
    Format("mturk", "mturk:read_mturk", "Mechanical Turk batch results, CSV", ("question", "task", "truth"), "Input."),
    Format("toloka", "toloka:read_toloka", "Toloka results, TSV", ("question", "task"), "INPUT:"),
    Format(
        "ground-truth", "ground_truth:read_ground_truth", "SageMaker Ground Truth manifest", ("question", "task"), ""
    ),
    Format("peerannot", "peerannot:read_by_task", "answers.json, task -> worker -> label"),
    Format("peerannot-by-worker", "peerannot:read_by_worker", "answers.json, worker -> task -> label"),
    Format("matrix", "matrix:read_matrix", "Rodrigues' text matrix, a line a task, a column a worker, -1 for none"),
    Format("cleanlab", "cleanlab:read_cleanlab", "wide CSV or Parquet, a row a task, a column a worker", ("task",)),
    Format("doccano", "doccano:read_doccano", "zip of <username>.jsonl", ("task",), ""),
)

FORMATS = {form.name: form for form in _FORMATS}
