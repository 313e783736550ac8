"""The result of `bench`: a row of figures per method, as a table and in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from crowdwise._core.display import html_table, pluralise
from crowdwise._core.frames import convert
from crowdwise._core.validation import require

Measure = Literal["accuracy", "balanced_accuracy", "log_likelihood"]
TITLES = {
    "accuracy": "accuracy", "balanced_accuracy": "balanced accuracy",
    "log_likelihood": "log-likelihood per held-out answer",
}  # fmt: skip


class MethodFigures(NamedTuple):
    """One method: means over the seeds, and differences to majority vote with their standard errors.

    Figures are None if they were not measured. `seconds` is the mean time of a fit.
    """

    method: str
    accuracy: float | None = None
    accuracy_to_vote: float | None = None
    accuracy_to_vote_error: float | None = None
    balanced_accuracy: float | None = None
    balanced_accuracy_to_vote: float | None = None
    balanced_accuracy_to_vote_error: float | None = None
    log_loss: float | None = None
    calibration_error: float | None = None
    log_likelihood: float | None = None
    log_likelihood_to_vote: float | None = None
    log_likelihood_to_vote_error: float | None = None
    temperature: float | None = None
    seconds: float | None = None
    failure: str | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Benchmark:
    """Methods with their figures, the best first; `str(benchmark)` is a table and its meaning in words.

    Attributes
    ----------
    figures : tuple of MethodFigures
        In the order of the methods, majority vote first.
    seeds : tuple of int
    n_tasks, n_known : int
        Number of tasks, and of those with known truth.
    held_out : bool
        Whether held-out answers were scored.
    """

    figures: tuple[MethodFigures, ...]
    seeds: tuple[int, ...]
    n_tasks: int
    n_known: int
    held_out: bool

    @property
    def measure(self) -> Measure:
        """What methods are sorted by: accuracy if truth is known, or the log-likelihood of held-out answers."""
        return "accuracy" if self.n_known else "log_likelihood"

    @property
    def ranking(self) -> list[MethodFigures]:
        """The methods, the best first and those that failed last."""
        return self.ranked(self.measure)

    def ranked(self, measure: Measure) -> list[MethodFigures]:
        """Return the methods by another measure, the best first and those that failed last."""
        measured = [name for name in TITLES if any(getattr(row, name) is not None for row in self.figures)]
        require(measure in measured, "measure", measure, "one of " + ", ".join(map(repr, measured)))
        values = {row.method: getattr(row, measure) for row in self.figures}
        return sorted(self.figures, key=lambda row: float("inf") if row.failure else -values[row.method])

    def to_arrow(self) -> pa.Table:
        """Return one row per method, without the figures that were not measured."""
        kinds = {name: pa.string() if name in ("method", "failure") else pa.float64() for name in MethodFigures._fields}
        table = pa.Table.from_pylist([row._asdict() for row in self.ranking], schema=pa.schema(list(kinds.items())))
        return table.select([name for name in kinds if table.column(name).null_count < len(table)])

    def to_pandas(self) -> Any:
        """Return the same as a pandas data frame."""
        return convert(self.to_arrow(), "pandas")

    def to_polars(self) -> Any:
        """Return the same as a polars data frame."""
        return convert(self.to_arrow(), "polars")

    @property
    def words(self) -> list[str]:
        """The result in sentences."""
        vote, first = self.figures[0], self.ranking[0]
        title = TITLES[self.measure]
        lead, error = (getattr(first, f"{self.measure}_to_vote{part}") for part in ("", "_error"))
        known = f", {self.n_known:,} with known truth" if self.n_known else ""
        seeds = pluralise(len(self.seeds), "seed")
        how = f"{self.n_tasks:,} tasks{known}; means over {seeds}; ± is one standard error of a paired difference."
        if first is vote:
            return [f"No method has a higher {title} than majority vote.", how]
        clear = "more" if lead > 2 * (error or 0) else "not more"
        text = f"{first.method} has the highest {title}: {_lead(lead, error)} against majority vote, {clear} than two"
        return [f"{text} standard errors.", how]

    def cells(self) -> list[list[str]]:
        """Return the table as text, the header first."""
        columns = [name for name in TITLES if getattr(self.figures[0], name) is not None]
        extra = {"calibration_error": "calib. error", "temperature": "temperature"}
        extra = {name: title for name, title in extra.items() if any(getattr(row, name) for row in self.figures)}
        header = ["method"]
        for name in columns:
            header += [TITLES[name].replace("log-likelihood per held-out answer", "held-out log-lik."), "vs. vote"]
        rows = [[*header, *extra.values(), "seconds"]]
        for row in self.ranking:
            line = [row.method]
            for name in columns:
                lead, error = (getattr(row, f"{name}_to_vote{part}") for part in ("", "_error"))
                line += [_number(getattr(row, name)), "" if row is self.figures[0] else _lead(lead, error)]
            line += [_number(getattr(row, name)) for name in extra]
            rows.append([*line, "failed" if row.failure else f"{row.seconds:.2f}"])
        return rows

    def notes(self) -> list[str]:
        """Return the sentences, and why methods failed."""
        return [*self.words, *(f"{row.method} failed: {row.failure}" for row in self.figures if row.failure)]

    def __str__(self) -> str:
        rows = self.cells()
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        return "\n".join([*(line.rstrip() for line in lines), "", *self.notes()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        header, *body = self.cells()
        return html_table(body, header, self.notes())


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _lead(value: float | None, error: float | None) -> str:
    return "" if value is None or error is None else f"{value:+.3f} ± {error:.3f}"
