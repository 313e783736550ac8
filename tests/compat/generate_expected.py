"""Write expected.json: the results of crowd-kit for the test cases. Run with a Python that has crowd-kit 1.4.2:

.venv-peers/bin/python tests/compat/generate_expected.py
"""

import inspect
import json
import types
import warnings
from pathlib import Path

from tests.helpers.crowdkit_cases import CLASSES, SETTLED, cases, run


def main():
    import crowdkit.aggregation  # not installed where the tests run
    import crowdkit.metrics.data

    warnings.simplefilter("ignore")
    crowdkit_names = types.SimpleNamespace(**(vars(crowdkit.aggregation) | vars(crowdkit.metrics.data)))
    results = {}
    for name, (cls, frame, arguments, *rest) in cases().items():
        if arguments.get("tol") == 0:  # crowd-kit would stop when its bound decreases
            arguments = arguments | {"tol": -1e9}
        results[name] = run(crowdkit_names, cls, frame, arguments, *rest)
    settled = {
        name: run(crowdkit_names, cls, frame, arguments, "fit_predict", {}, compared)
        for name, (cls, frame, arguments, *_, compared) in SETTLED.items()
    }
    parts = {
        "cases": results,
        "settled": settled,
        "signatures": {name: signature(getattr(crowdkit_names, name)) for name in CLASSES},
    }
    text = ",\n".join(f'"{part}": {to_json(lines)}' for part, lines in parts.items())
    Path(__file__).with_name("expected.json").write_text(f'{{"crowdkit": "{crowdkit.__version__}",\n{text}}}\n')


def signature(cls):
    """Return the constructor's arguments with their defaults, and the arguments of the public methods."""
    import attr

    fields = {f.name: f.default for f in attr.fields(cls) if f.init and not f.name.startswith("_")}
    methods = [name for name in dir(cls) if not name.startswith("_") and callable(getattr(cls, name))]
    return {"arguments": fields, **{name: list(inspect.signature(getattr(cls, name)).parameters) for name in methods}}


def to_json(results):
    """Return JSON with one line per case."""
    return (
        "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(round_floats(r))}" for name, r in results.items()) + "\n}"
    )


def round_floats(value):
    """Round floats to nine digits, which is all that tests compare."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {key: round_floats(item) for key, item in value.items()}
    return [round_floats(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
