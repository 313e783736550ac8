"""Options that name a method and its parameters, and the model that they describe."""

from __future__ import annotations

import ast
import difflib
import json as jsons
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from crowdwise.errors import ParameterError


def method_names(incomplete: str) -> list[str]:
    """Return the methods whose name starts with this text, for shell completion.

    >>> method_names("dawid")
    ['dawid-skene']
    """
    from crowdwise._core.registry import methods

    return [method.name for method in methods() if method.name.startswith(incomplete)]


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
