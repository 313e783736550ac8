"""Writes expected.json: what crowd-kit answers to the cases. Run with a Python that has crowd-kit 1.4.2:

.venv-peers/bin/python tests/compat/generate_expected.py
"""

import inspect
import json
import types
import warnings
from pathlib import Path

from tests.helpers.crowdkit_cases import CLASSES, SETTLED, cases, run


def main():
    import crowdkit.aggregation  # not where the tests run
    import crowdkit.metrics.data

    warnings.simplefilter("ignore")
    theirs = types.SimpleNamespace(**(vars(crowdkit.aggregation) | vars(crowdkit.metrics.data)))
    results = {}
    for name, (cls, frame, arguments, *rest) in cases().items():
        if arguments.get("tol") == 0:  # theirs stops at a fall of its bound, which is not the true one and may fall
            arguments = arguments | {"tol": -1e9}
        results[name] = run(theirs, cls, frame, arguments, *rest)
    settled = {
        name: run(theirs, cls, frame, arguments, "fit_predict", {}, compared)
        for name, (cls, frame, arguments, *_, compared) in SETTLED.items()
    }
    parts = {
        "cases": results,
        "settled": settled,
        "signatures": {name: signature(getattr(theirs, name)) for name in CLASSES},
    }
    text = ",\n".join(f'"{part}": {written(lines)}' for part, lines in parts.items())
    Path(__file__).with_name("expected.json").write_text(f'{{"crowdkit": "{crowdkit.__version__}",\n{text}}}\n')


def signature(cls):
    """Constructor's arguments with their defaults, and the arguments of the public methods."""
    import attr

    fields = {f.name: f.default for f in attr.fields(cls) if f.init and not f.name.startswith("_")}
    methods = [name for name in dir(cls) if not name.startswith("_") and callable(getattr(cls, name))]
    return {"arguments": fields, **{name: list(inspect.signature(getattr(cls, name)).parameters) for name in methods}}


def written(results):
    """JSON with one line a case."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(rounded(r))}" for name, r in results.items()) + "\n}"


def rounded(value):
    """Floats to nine digits: all that is compared."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
