"""Options that several commands share, and their conversion to arguments of the library."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from crowdwise.cli.lean_imports import import_arrow_and_numba
from crowdwise.cli.screen import progress
from crowdwise.errors import CrowdwiseError, CrowdwiseWarning, ParameterError

if TYPE_CHECKING:
    from crowdwise.answers import Answers
    from crowdwise.io import SideColumns

T = TypeVar("T")


class Kind(StrEnum):
    """What an answer is."""

    auto = "auto"
    classes = "classes"
    ratings = "ratings"


class Duplicates(StrEnum):
    """What to do if a worker answered a task more than once."""

    error = "error"
    first = "first"
    last = "last"
    vote = "vote"


class Nulls(StrEnum):
    """What to do with rows that have a missing value."""

    error = "error"
    drop = "drop"


Reading = dict[str, Any]  # the values of READING_OPTIONS
PANEL = "Reading the answers"  # heading of the reading options in --help
MAX_CLASSES = 1000
Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="Answers: CSV, TSV, Parquet, JSONL, or an export of an annotation tool."),
]
Sources = Annotated[  # strings, because a Path would collapse the two slashes of an address
    list[str],
    typer.Argument(
        metavar="FILE",
        help="Answers: CSV, TSV, Parquet, JSONL, or an export of an annotation tool. With Spark, also URLs such as "
        "s3a://BUCKET/FOLDER.",
    ),
]


def _reading_option(name: str, kind: Any, default: Any, help: str, **limits: Any) -> Parameter:
    option = typer.Option(f"--{name.replace('_', '-')}", help=help, rich_help_panel=PANEL, **limits)
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


# The options of every command that reads answers, in the order of --help.
READING_OPTIONS = (
    _reading_option(
        "format", str | None, None, metavar="FORMAT",
        help="Format of the files, for example label-studio. Default: detected from their name and content.",
    ),
    _reading_option(
        "question", str | None, None, metavar="NAME", help="Question to read, if the export has several."
    ),
    _reading_option(
        "task", str | None, None, metavar="COLUMN", help="Column with the task ids. Default: detected by its name."
    ),
    _reading_option(
        "worker", str | None, None, metavar="COLUMN", help="Column with the worker ids. Default: detected by its name."
    ),
    _reading_option(
        "label", str | None, None, metavar="COLUMN", help="Column with the labels. Default: detected by its name."
    ),
    _reading_option(
        "kind", Kind | None, None,
        "What an answer is: one of several unordered classes, or a level of a scale or a number (ratings). Default: "
        "`run` and `aggregate` tell from the values and say so; other commands take classes.",
    ),
    _reading_option(
        "levels", str | None, None, metavar="LOW,...,HIGH",
        help="Levels of the scale of ratings, lowest first. Default: their natural order.",
    ),
    _reading_option(
        "duplicates", Duplicates, Duplicates.error,
        "What to do if a worker answered a task more than once: stop with an error, keep the first or the last answer, "
        "or keep the most frequent one (vote).",
    ),
    _reading_option(
        "nulls", Nulls, Nulls.error,
        "What to do with rows that have a missing value: stop with an error, or drop them.",
    ),
    _reading_option(
        "multiline", bool, False,
        "Accept line breaks in ids and labels of CSV and TSV files. By default they are an error, because a stray "
        "quotation mark makes one cell of many lines.",
    ),
    _reading_option(
        "as_classes", bool, False,
        "Treat each distinct label as a class, even if labels are numbers, lists of labels or free text. By default "
        "this is an error.",
    ),
    _reading_option(
        "fold_case", bool, False,
        "Treat labels that differ only in case or surrounding spaces as one class.",
    ),
    _reading_option(
        "max_classes", int, MAX_CLASSES, metavar="N", min=1,
        help="Stop with an error if there are more classes than this.",
    ),
)  # fmt: skip


def with_reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options for reading answers; it receives them as the mapping `reading`."""
    own = [
        parameter for parameter in signature(command, eval_str=True).parameters.values() if parameter.name != "reading"
    ]
    parameters = [*(parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in own), *READING_OPTIONS]

    @wraps(command)
    def wrapper(**arguments: Any) -> None:
        if arguments.get("engine") != "spark":  # which needs pandas
            import_arrow_and_numba()
        reading = {option.name: arguments.pop(option.name) for option in READING_OPTIONS}
        command(**arguments, reading=reading)

    wrapper.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


Pseudonymise = Annotated[
    Path | None,
    typer.Option(
        "--pseudonymise", metavar="KEYFILE",
        help="Replace worker ids with pseudonyms derived from this key file (created if missing).",
    ),
]  # fmt: skip
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Random seed.")]
Truth = Annotated[
    Path | None,
    typer.Option(
        "--truth", metavar="FILE",
        help="Known labels (columns task and label) to score the result against. They are not used in the fit.",
    ),
]  # fmt: skip
Gold = Annotated[
    Path | None,
    typer.Option(
        "--gold", metavar="FILE",
        help="Known labels (columns task and label) of some tasks. The fit uses them as given, besides the labels that "
        "an export marks as ground truth. `none` uses neither.",
    ),
]  # fmt: skip
Families = Annotated[
    str | None,
    typer.Option(
        "--families", metavar="COLUMN",
        help="Column of the answers with the family of each worker, such as the maker of a language model, or a file "
        "with the columns worker and family. Default: families are looked for in the answers.",
    ),
]  # fmt: skip
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Set a parameter of the method. Can be repeated."),
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object instead of text.")]


def read_answers(files: list[Path], pseudonymise: Path | None = None, **options: Any) -> Answers:
    """Read one or more files into one set of answers; the reader detects every option that is None."""
    from crowdwise.io import read

    if pseudonymise is None:
        return _read(files, read, options)
    with withheld(files):
        answers = _read(files, read, options)
    return renamed(answers, pseudonymise)[0]


def renamed(answers: Answers, pseudonymise: Path | None) -> tuple[Answers, Any]:
    """Return the answers with pseudonyms, and the previous row of each; unchanged without a key file."""
    from crowdwise.answers.pseudonyms import pseudonymised

    return (answers, slice(None)) if pseudonymise is None else pseudonymised(answers, pseudonymise)


@contextmanager
def withheld(what: Iterable[Path | str], remedy: str | None = None, *, really: bool = True) -> Iterator[None]:
    """Reduce errors and warnings to their kind while their text may contain worker ids.

    A reader quotes the cell that it rejects, and any cell may hold an id.
    """
    if not really:
        yield
        return
    named = " ".join(shlex.quote(str(each)) for each in what)
    remedy = remedy or f"`crowdwise inspect {named}` shows them"
    more = f"The details may contain worker ids and are hidden by --pseudonymise; {remedy}."
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CrowdwiseWarning)
        try:
            yield
        except CrowdwiseError as error:
            message = f"{named}: {_kind(type(error))} {more}"
            raise type(error)(message) from None
    for warning in caught:
        ours = issubclass(warning.category, CrowdwiseWarning)
        text = f"{named}: {_kind(warning.category)} {more}" if ours else str(warning.message)
        warnings.warn(text, warning.category, stacklevel=3)


def _kind(cls: type) -> str:
    """Return the first line of the documentation of an error or warning class.

    >>> from crowdwise.errors import DuplicateError
    >>> _kind(DuplicateError)
    'A worker answered a task more than once, or an id is listed twice.'
    """
    return (cls.__doc__ or cls.__name__).strip().splitlines()[0]


def read_answers_with_side_columns(files: list[Path], **options: Any) -> tuple[Answers, SideColumns]:
    """Read one or more files of answers, and the texts, images and times in them; each file is parsed once."""
    from crowdwise.io import read_with_side_columns

    return _read(files, read_with_side_columns, options)


def _read(files: list[Path], reader: Callable[..., T], options: dict[str, Any]) -> T:
    for file in files:
        if (file / "metrics.json").is_file():
            message = f"{file} is the folder of a run, not a file of answers. Pass the file that the run was made from."
            raise ParameterError(message)
    with progress(f"Reading {', '.join(file.name for file in files)}"):
        arguments: dict[str, Any] = {
            name: value if isinstance(value, int) else str(value)  # a bool is an int
            for name, value in options.items()
            if value is not None
        }
        if "levels" in arguments:
            arguments["levels"] = [level.strip() for level in arguments["levels"].split(",")]
            arguments.setdefault("kind", "ratings")
        arguments.setdefault("kind", "classes")
        return reader(files if len(files) > 1 else files[0], **arguments)


def sizes(answers: Answers) -> dict[str, int]:
    """Return the number of tasks, workers, answers and classes."""
    return {name: getattr(answers, f"n_{name}") for name in ("tasks", "workers", "answers", "classes")}


def refuse_same_file(read: Iterable[Path | None], written: Iterable[Path | None], key: Path | None = None) -> None:
    """Reject outputs that overwrite an input or each other, and a key file that is an input."""
    taken = {file.resolve() for file in read if file is not None}
    if key is not None and key.resolve() in taken:
        message = f"--pseudonymise {key}: this is an input file. Name a new file; a key is created in it."
        raise ParameterError(message)
    taken |= set() if key is None else {key.resolve()}
    for file in written:
        if file is None:
            continue
        if file.resolve() in taken:
            message = f"{file} is named twice, and writing would overwrite it. Choose another output file."
            raise ParameterError(message)
        taken.add(file.resolve())
