"""Options that several commands share, and their conversion to arguments of the library."""

from __future__ import annotations

import ast
import difflib
import json as jsons
import shlex
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from crowdwise.cli.screen import note, progress
from crowdwise.errors import CrowdwiseError, CrowdwiseWarning, ParameterError

if TYPE_CHECKING:
    from crowdwise.answers import Answers
    from crowdwise.io import SideColumns

T = TypeVar("T")


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
NO_GOLD = Path("none")  # the value of --gold for no gold
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Set a parameter of the method. Can be repeated."),
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object instead of text.")]


def method_names(incomplete: str) -> list[str]:
    """Return the methods whose name starts with this text, for shell completion.

    >>> method_names("dawid")
    ['dawid-skene']
    """
    from crowdwise._core.registry import methods

    return [method.name for method in methods() if method.name.startswith(incomplete)]


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
    with progress(f"Reading {', '.join(file.name for file in files)}"):
        arguments = {
            name: value if isinstance(value, int) else str(value)  # a bool is an int
            for name, value in options.items()
            if value is not None
        }
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


def with_marked_gold(answers: Answers, gold: Path | None) -> tuple[Answers, Path | None]:
    """Return the answers and the file of gold labels; with `--gold none`, labels marked as gold are scored instead."""
    return (replace(answers, truth_is_gold=False), None) if gold == NO_GOLD else (answers, gold)


def family_file(families: str | None) -> Path | None:
    """Return the file of workers and families, if it is one."""
    return Path(families) if families is not None and Path(families).is_file() else None


def read_families(
    families: str | None, files: list[Path], answers: Answers, pseudonymise: Path | None, reading: Mapping[str, Any]
) -> dict[Any, str] | None:
    """Return the family of each worker from a file, or from a column of the answers; workers as in the results.

    `answers` are as read, without pseudonyms.
    """
    from crowdwise import io

    if families is None:
        return None
    with withheld(files, really=pseudonymise is not None):
        if family_file(families) is not None:
            found = io.read_families(families, like=answers)
        else:
            options = {name: reading.get(name) for name in ("worker", "format")}
            found = io.read_families([str(file) for file in files], families, like=answers, **options)
    if pseudonymise is None:
        return found
    return dict(zip(pseudonyms(list(found), answers, pseudonymise), found.values(), strict=True))


def pseudonyms(workers: list[Any], answers: Answers, key: Path) -> list[Any]:
    """Return the pseudonyms of workers; `answers` have their ids."""
    import pyarrow as pa

    from crowdwise.answers.pseudonyms import hash_ids, read_key

    return hash_ids(pa.array(workers, answers.worker_ids.type), read_key(key)).to_pylist()


def known_labels(answers: Answers, truth: Path | None, gold: Path | None) -> tuple[Answers, Any, Any]:
    """Return the answers, the codes of the labels to score against (gold excluded), and those of the gold labels."""
    import numpy as np

    from crowdwise.io.reader import attach_truth, gold_notes

    answers, gold = with_marked_gold(answers, gold)
    for sentence in gold_notes(answers):
        note(sentence)
    known, fixed = None if answers.truth_is_gold else answers.truth, answers.marked_gold
    if gold is not None:
        marked, answers = fixed, attach_truth(answers, gold)
        assert answers.truth is not None
        fixed = answers.truth if marked is None else np.where(answers.truth >= 0, answers.truth, marked)
    if truth is not None:  # for scoring only: a class that only the truth has does not reach the fit
        scored = attach_truth(answers, truth)
        known, answers = scored.truth, replace(answers, removed=scored.removed)
    if known is not None and fixed is not None:
        known = np.where(fixed >= 0, -1, known)  # a label that the fit knows is not scored
    return answers, known, fixed


def settings(pairs: list[str]) -> dict[str, Any]:
    """Convert `name=value` pairs to arguments: numbers, booleans, none and lists are parsed, the rest is text.

    >>> settings(["prior=diagonal", "max_iter=50", "hard=true", "class_prior=none"])
    {'prior': 'diagonal', 'max_iter': 50, 'hard': True, 'class_prior': None}
    """
    out: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not (equals and name.isidentifier()):
            message = f"--set {pair}: expected NAME=VALUE, for example --set max_iter=50."
            raise ParameterError(message)
        words = {"true": True, "false": False, "yes": True, "no": False, "none": None, "null": None}
        try:
            out[name] = words[text.lower()] if text.lower() in words else ast.literal_eval(text)
        except (ValueError, SyntaxError):
            out[name] = text
    return out


def class_prior(text: str | None, classes: Iterable[Any]) -> Any:
    """Parse declared class shares: "balanced", `class=share,...`, or a JSON file with an object of shares.

    Class names are those of the answers. The method checks that none is missing.

    >>> class_prior("balanced", ["cat", "dog"]), class_prior("1=0.2, 2=0.8", [1, 2]), class_prior(None, [])
    ('balanced', {1: 0.2, 2: 0.8}, None)
    """
    if text is None or text == "balanced":
        return text
    expected = "expected balanced, shares such as cat=0.3,dog=0.7, or a JSON file with an object of shares"
    try:
        if not text:
            wrong = "it is empty"
            raise ValueError(wrong)
        if "=" in text and not Path(text).is_file():
            pairs = [pair.rsplit("=", 1) for pair in text.split(",")]
            values: Any = dict(pairs)
            if len(values) < len(pairs):
                wrong = "a class is listed twice"
                raise ValueError(wrong)
        else:
            values = jsons.loads(Path(text).read_text("utf-8"))
        if not isinstance(values, dict):
            wrong = f"the file holds a {type(values).__name__}"
            raise TypeError(wrong)
        shares = {str(name).strip(): float(share) for name, share in values.items()}
    except (OSError, ValueError, TypeError) as error:
        message = f"--class-prior {text}: {expected} ({error})."
        raise ParameterError(message) from None
    ids = {str(name): name for name in classes}
    return {ids.get(name, name): share for name, share in shares.items()}


def build(method: str, parameters: dict[str, Any], seed: int, *, features: bool = False) -> Any:
    """Build a registered method; reject parameters that it does not have.

    A parameter that a framework such as `dasc(crowdlayer)` does not have is passed to its learner.
    """
    from crowdwise._core.registry import find_method, make

    if find_method(method).needs_features != features:
        message = f"{method} does not use features. Run `crowdwise aggregate --method {method}` instead."
        if not features:
            name = shlex.quote(method)
            message = f"{method} needs features. Run `crowdwise fit --method {name} --features FILE` instead."
        raise ParameterError(message)
    model = make(method)
    if features:
        from crowdwise.learn.wrapper import resolve_base  # imports scikit-learn

        model = resolve_base(model)
    known = model.get_params()
    parameters = {_within(name, known): value for name, value in parameters.items()}
    for depth in range(5):  # first network, then network__hidden and base__network, then base__network__hidden, ...
        known = model.get_params()
        seeds = {name: seed for name in known if name.rpartition("__")[2] == "random_state"}
        part = {name: value for name, value in {**seeds, **parameters}.items() if name.count("__") == depth}
        for name in part:
            if name not in known:
                own = ", ".join(name for name in known if "__" not in name)
                last = {each.rpartition("__")[2]: each for each in known}
                close = difflib.get_close_matches(name.rpartition("__")[2], last, n=3)
                meant = f" Did you mean {', '.join(last[each] for each in close)}?" if close else ""
                message = f"{method} has no parameter {name!r}.{meant} Its parameters are {own or 'none'}."
                raise ParameterError(message)
        model.set_params(**part)
    return model


def _within(name: str, known: Mapping[str, Any]) -> str:
    """Return the full name of a parameter of a framework or, failing that, of the learner inside it.

    >>> _within("lr", {"base": 1, "base__base": 1, "base__base__lr": 1})
    'base__base__lr'
    """
    inner = name
    while inner not in known and inner.count("base__") < 4:
        inner = f"base__{inner}"
    return inner if inner in known else name
