"""Options that several commands share, and how they become arguments of the library."""

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
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from crowdwise.cli.screen import progress
from crowdwise.errors import CrowdwiseError, CrowdwiseWarning, ParameterError

if TYPE_CHECKING:
    from crowdwise.answers import Answers
    from crowdwise.io import SideColumns

T = TypeVar("T")


class Duplicates(StrEnum):
    """What to do when a worker answered a task twice."""

    error = "error"
    first = "first"
    last = "last"
    vote = "vote"


class Nulls(StrEnum):
    """What to do with rows that lack a value."""

    error = "error"
    drop = "drop"


READING = "Reading the answers"  # heading of these options in --help
Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="Answers: CSV, TSV, Parquet, JSONL or an export.")]
Sources = Annotated[  # not paths, which would not keep the two slashes of an address
    list[str],
    typer.Argument(metavar="FILE", help="Answers: CSV, TSV, Parquet, JSONL or an export; for Spark also addresses."),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="Format of the file, when it cannot be told from it.", rich_help_panel=READING),
]
Question = Annotated[
    str | None,
    typer.Option("--question", help="Which question, when an export holds several.", rich_help_panel=READING),
]
Task = Annotated[str | None, typer.Option("--task", help="Column of the task.", rich_help_panel=READING)]
Worker = Annotated[str | None, typer.Option("--worker", help="Column of the worker.", rich_help_panel=READING)]
Label = Annotated[str | None, typer.Option("--label", help="Column of the label.", rich_help_panel=READING)]
TwiceAnswered = Annotated[
    Duplicates,
    typer.Option("--duplicates", help="When a worker answered a task twice.", rich_help_panel=READING),
]
MAX_CLASSES = 1000
MaxClasses = Annotated[
    int,
    typer.Option("--max-classes", min=1, help="More distinct labels are taken for a mistake.", rich_help_panel=READING),
]
Missing = Annotated[Nulls, typer.Option("--nulls", help="Rows that lack a value.", rich_help_panel=READING)]
Pseudonymise = Annotated[
    Path | None,
    typer.Option(
        "--pseudonymise", metavar="KEYFILE",
        help="Workers under other names, by the key in this file (made if need be): no id is shown or written.",
    ),
]  # fmt: skip
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything random.")]
Truth = Annotated[Path | None, typer.Option("--truth", help="Known labels to score against; never used to fit.")]
Gold = Annotated[Path | None, typer.Option("--gold", help="Known labels of some tasks, held fixed in the fit.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the method; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def method_names(incomplete: str) -> list[str]:
    """Names of methods that begin like this, for completion in the shell.

    >>> method_names("dawid")
    ['dawid-skene']
    """
    from crowdwise._core.registry import methods

    return [method.name for method in methods() if method.name.startswith(incomplete)]


def read_answers(files: list[Path], pseudonymise: Path | None = None, **options: Any) -> Answers:
    """Read one or more files of answers into one set; options left at None are recognised by the reader."""
    from crowdwise.io import read

    if pseudonymise is None:
        return _read(files, read, options)
    with withheld(files):
        answers = _read(files, read, options)
    return renamed(answers, pseudonymise)[0]


def renamed(answers: Answers, pseudonymise: Path | None) -> tuple[Answers, Any]:
    """The answers with other names for the workers, and which row each stood in; as they are where there is no key."""
    from crowdwise.answers.pseudonyms import pseudonymised

    return (answers, slice(None)) if pseudonymise is None else pseudonymised(answers, pseudonymise)


@contextmanager
def withheld(what: Iterable[Path | str], remedy: str | None = None, *, really: bool = True) -> Iterator[None]:
    """Say of errors and warnings no more than their kind, while they may name workers by their ids.

    A reader quotes the cell it stumbles over, and any cell may hold an id.
    """
    if not really:
        yield
        return
    named = " ".join(shlex.quote(str(each)) for each in what)
    remedy = remedy or f"`crowdwise inspect {named}` shows it"
    more = f"What it says may name workers, and is withheld under --pseudonymise: {remedy}."
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", CrowdwiseWarning)
        try:
            yield
        except CrowdwiseError as error:
            message = f"{named}: {_kind(type(error))} {more}"
            raise type(error)(message) from None
    for each in told:
        own = issubclass(each.category, CrowdwiseWarning)
        said = f"{named}: {_kind(each.category)} {more}" if own else str(each.message)
        warnings.warn(said, each.category, stacklevel=3)


def _kind(cls: type) -> str:
    """What a class of errors is about.

    >>> from crowdwise.errors import DuplicateError
    >>> _kind(DuplicateError)
    'A worker answered a task more than once.'
    """
    return (cls.__doc__ or cls.__name__).strip().splitlines()[0]


def read_answers_with_side_columns(files: list[Path], **options: Any) -> tuple[Answers, SideColumns]:
    """Read one or more files of answers, and the texts, images and times in them; each file is parsed once."""
    from crowdwise.io import read_with_side_columns

    return _read(files, read_with_side_columns, options)


def _read(files: list[Path], reader: Callable[..., T], options: dict[str, Any]) -> T:
    with progress(f"Reading {', '.join(file.name for file in files)}"):
        return reader(
            files if len(files) > 1 else files[0],
            **{
                name: value if isinstance(value, int) else str(value)
                for name, value in options.items()
                if value is not None
            },
        )


def sizes(answers: Answers) -> dict[str, int]:
    """How many of what there is."""
    return {name: getattr(answers, f"n_{name}") for name in ("tasks", "workers", "answers", "classes")}


def refuse_same_file(read: Iterable[Path | None], written: Iterable[Path | None], key: Path | None = None) -> None:
    """Refuse to write over a file that is read, or two results to one file; and a key that is a file of data."""
    taken = {file.resolve() for file in read if file is not None}
    if key is not None and key.resolve() in taken:
        message = f"--pseudonymise {key}: that is a file of data. Name one that is not there: a key is made."
        raise ParameterError(message)
    taken |= set() if key is None else {key.resolve()}
    for file in written:
        if file is None:
            continue
        if file.resolve() in taken:
            message = f"{file} is named twice: a result would replace it. Write to another file."
            raise ParameterError(message)
        taken.add(file.resolve())


def known_labels(answers: Answers, truth: Path | None, gold: Path | None) -> tuple[Answers, Any, Any]:
    """The answers; codes of the labels to score against (not those the fit is told); codes of those it is told."""
    import numpy as np

    from crowdwise.io.reader import attach_truth

    known, held_fixed = answers.truth, None
    if gold is not None:
        answers = attach_truth(answers, gold)
        held_fixed = answers.truth
    if truth is not None:  # only for scoring: a class it alone names does not reach the fit
        scored = attach_truth(answers, truth)
        known, answers = scored.truth, replace(answers, removed=scored.removed)
    if known is not None and held_fixed is not None:
        known = np.where(held_fixed >= 0, -1, known)  # what was told is no merit
    return answers, known, held_fixed


def settings(pairs: list[str]) -> dict[str, Any]:
    """Turn `name=value` pairs into arguments: numbers, true or yes, none and lists are read as such, the rest is text.

    >>> settings(["prior=diagonal", "max_iter=50", "hard=true", "class_prior=none"])
    {'prior': 'diagonal', 'max_iter': 50, 'hard': True, 'class_prior': None}
    """
    out: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not (equals and name.isidentifier()):
            message = f"--set {pair}: write name=value, for example --set max_iter=50."
            raise ParameterError(message)
        words = {"true": True, "false": False, "yes": True, "no": False, "none": None, "null": None}
        try:
            out[name] = words[text.lower()] if text.lower() in words else ast.literal_eval(text)
        except (ValueError, SyntaxError):
            out[name] = text
    return out


def class_prior(text: str | None, classes: Iterable[Any]) -> Any:
    """Declared shares of the classes: "balanced", or `class=share,...`, or a JSON file with such an object.

    Classes are named as they are written in the answers; whether all are named is for the method to see.

    >>> class_prior("balanced", ["cat", "dog"]), class_prior("1=0.2, 2=0.8", [1, 2]), class_prior(None, [])
    ('balanced', {1: 0.2, 2: 0.8}, None)
    """
    if text is None or text == "balanced":
        return text
    how = "give balanced, shares such as cat=0.3,dog=0.7, or a JSON file that holds an object of them"
    try:
        if not text:
            wrong = "it is empty"
            raise ValueError(wrong)
        if "=" in text and not Path(text).is_file():
            pairs = [pair.rsplit("=", 1) for pair in text.split(",")]
            given: Any = dict(pairs)
            if len(given) < len(pairs):
                wrong = "a class is named twice"
                raise ValueError(wrong)
        else:
            given = jsons.loads(Path(text).read_text("utf-8"))
        if not isinstance(given, dict):
            wrong = f"it holds a {type(given).__name__}"
            raise TypeError(wrong)
        shares = {str(name).strip(): float(share) for name, share in given.items()}
    except (OSError, ValueError, TypeError) as error:
        message = f"--class-prior {text}: {how} ({error})."
        raise ParameterError(message) from None
    ids = {str(name): name for name in classes}
    return {ids.get(name, name): share for name, share in shares.items()}


def build(method: str, parameters: dict[str, Any], seed: int, *, features: bool = False) -> Any:
    """Make a method of the registry that learns from features or does without, refusing parameters it does not have.

    A parameter that a framework such as `dasc(crowdlayer)` lacks is its learner's.
    """
    from crowdwise._core.registry import find_method, make
    from crowdwise.learn.wrapper import resolve_base

    if find_method(method).needs_features != features:
        message = f"{method} needs no features: use `crowdwise aggregate --method {method}`."
        if not features:
            name = shlex.quote(method)
            message = f"{method} learns from features too: use `crowdwise fit --method {name} --features FILE`."
        raise ParameterError(message)
    model = resolve_base(make(method))
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
                message = f"{method} has no parameter {name!r}.{meant} It has {own or 'none'}."
                raise ParameterError(message)
        model.set_params(**part)
    return model


def _within(name: str, known: Mapping[str, Any]) -> str:
    """The parameter of this name of a framework, or else of the learner within it, however deep.

    >>> _within("lr", {"base": 1, "base__base": 1, "base__base__lr": 1})
    'base__base__lr'
    """
    inner = name
    while inner not in known and inner.count("base__") < 4:
        inner = f"base__{inner}"
    return inner if inner in known else name
