"""Tables out: of the kind that came in, pandas, polars or Arrow."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, ClassVar, Literal

import pyarrow as pa

from crowdwise._core.display import NOTHING, html_table
from crowdwise._core.installation import install_command
from crowdwise.errors import MissingDependencyError

Kind = Literal["pandas", "polars", "arrow"]

SHOWN = 10  # rows shown in a notebook


class Frame:
    """An Arrow table that also converts to pandas and polars, and that notebooks show as a table.

    It has every attribute and method of `pyarrow.Table`. `pyarrow.table(frame)` and `frame.to_arrow()` return the Arrow
    table itself.

    Examples
    --------
    >>> frame = Frame(pa.table({"task": ["a", "b"], "label": ["cat", "dog"]}))
    >>> frame
    Frame(2 rows: task, label)
    >>> frame.to_pandas()["label"].tolist(), frame.slice(1), len(frame)
    (['cat', 'dog'], Frame(1 rows: task, label), 2)
    """

    __slots__ = ("_table",)

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def to_arrow(self) -> pa.Table:
        """Return the Arrow table."""
        return self._table

    def to_pandas(self) -> Any:
        """Return a pandas data frame."""
        return convert(self._table, "pandas")

    def to_polars(self) -> Any:
        """Return a polars data frame."""
        return convert(self._table, "polars")

    def __getattr__(self, name: str) -> Any:
        if name == "_table":  # not set yet, while a copy is made
            raise AttributeError(name)
        value = getattr(self._table, name)
        return _framed(value) if callable(value) and not name.startswith("__") else value

    def __reduce__(self) -> tuple[type[Frame], tuple[pa.Table]]:
        return Frame, (self._table,)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __getitem__(self, key: Any) -> Any:
        return _frame(self._table[key])

    def __eq__(self, other: object) -> bool:
        other = as_table(other)
        return bool(self._table.equals(other)) if isinstance(other, pa.Table) else NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Frame({len(self):,} rows: {', '.join(self._table.column_names)})"

    def _repr_html_(self) -> str:
        rows = [[_cell(value) for value in row.values()] for row in self._table.slice(0, SHOWN).to_pylist()]
        more = [["..."] * self._table.num_columns] if len(self) > SHOWN else []
        return html_table(rows + more, self._table.column_names, [f"{len(self):,} rows"])


def frame_kind(data: Any) -> Kind:
    """Return the kind of tables that belong to this input: "arrow" unless it is of pandas or polars.

    >>> import pandas as pd
    >>> frame_kind(pd.DataFrame({"task": [1]})), frame_kind("answers.csv")
    ('pandas', 'arrow')
    """
    library = type(data).__module__.partition(".")[0]
    return library if library in ("pandas", "polars") else "arrow"  # type: ignore[return-value]


def as_kind(table: pa.Table, kind: Kind) -> Any:
    """Return a table as a frame of this kind."""
    return Frame(table) if kind == "arrow" else convert(table, kind)


def as_table(frame: Any) -> Any:
    """Return the Arrow table of a `Frame`, and anything else unchanged."""
    return frame.to_arrow() if isinstance(frame, Frame) else frame


def convert(table: pa.Table, library: Literal["pandas", "polars"]) -> Any:
    """Return a data frame of this library."""
    module = import_library(library)
    return table.to_pandas() if library == "pandas" else module.from_arrow(table)


def import_library(library: str) -> Any:
    """Import pandas or polars."""
    try:
        return import_module(library)
    except ImportError:
        message = f"{library} is not installed: {install_command(library)}, or use Arrow tables."
        raise MissingDependencyError(message) from None


def to_table(frame: Any) -> pa.Table:
    """Return a pandas, polars or Arrow table as an Arrow table, without the index of pandas."""
    frame = as_table(frame)
    if type(frame).__name__ == "LazyFrame":  # polars
        frame = frame.collect()
    if hasattr(frame, "iloc"):  # pandas
        return pa.Table.from_pandas(frame, preserve_index=False)
    return frame.to_arrow() if hasattr(frame, "to_arrow") else pa.table(frame)  # old versions of polars have only that


def _frame(value: Any) -> Any:
    return Frame(value) if isinstance(value, pa.Table) else value


def _framed(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of Arrow tables that takes and returns frames."""

    @wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        return _frame(method(*map(as_table, args), **{name: as_table(value) for name, value in options.items()}))

    return call


def _cell(value: Any) -> str:
    if value is None:
        return NOTHING
    return f"{value:.4g}" if isinstance(value, float) else str(value)
