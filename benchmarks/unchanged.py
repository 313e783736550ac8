"""Check that a refactoring changed no result: every method on two small sets, compared with a fixture.

    python -m benchmarks unchanged --write   # before the change
    python -m benchmarks unchanged           # after it

Truth methods must agree to the last bit, learners to 1e-6. The fixture holds the inputs as well as the results, so that
it does not depend on the simulators. Learners run with few epochs: what matters is that every code path is the same.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np

import crowdwise as cw

FIXTURE = Path(__file__).parent / "results" / "unchanged.npz"
FEW = {
    "epochs": 4, "max_iter": 5, "batch_size": 32, "lr": 0.01, "weight_epochs": 3, "rounds": 2, "iterations": 2,
    "warmup_epochs": 2, "decoder_epochs": 2, "generator_epochs": 3, "discriminator_epochs": 1, "adversarial_epochs": 1,
    "steps": 2,
}  # fmt: skip
RESULTS = ("labels_", "proba_", "confusion_", "skill_")
TOLERANCE = 1e-6


def make_inputs() -> dict[str, np.ndarray]:
    """Return features and answers of two crowds, as plain arrays."""
    out = {}
    for name, n_classes, balance in (("even", 3, "even"), ("uneven", 4, "long-tail")):
        answers = cw.simulate.simulate(
            80, n_workers=8, n_classes=n_classes, answers_per_task=3, class_balance=balance, seed=3
        )
        noise = np.random.default_rng(3).normal(size=(80, 6))
        out[f"{name} X"] = (np.eye(n_classes, 6)[answers.truth] * 3 + noise).astype(np.float32)
        out[f"{name} answers"] = np.stack([answers.task, answers.worker, answers.label])
    return out


def build(name: str) -> object:
    """Return the method of this name, with few iterations."""
    model = cw.make(name)
    if isinstance(getattr(model, "base", None), str):
        model.set_params(base=cw.make(model.base))
    known = model.get_params()
    few = {key: value for key, value in FEW.items() if key in known}
    few |= {f"base__{key}": value for key, value in FEW.items() if f"base__{key}" in known}
    return model.set_params(**few)


def fit_all(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the results of every method on every set, by set, method and attribute."""
    out = {}
    for data in ("even", "uneven"):
        answers, X = cw.Answers.from_arrays(*inputs[f"{data} answers"]), inputs[f"{data} X"]
        gold = np.where(np.arange(answers.n_tasks) < 20, 0, -1).astype(np.int32)
        for method in cw.methods("classes"):
            model = build(method.name)
            if method.needs_features:
                model.fit(X, answers)
                out[f"{data} {method.name} predict_proba"] = model.predict_proba(X)
            else:
                model.fit(answers, gold if model.needs_gold else None)
            for what in RESULTS:
                if getattr(model, what, None) is not None:
                    out[f"{data} {method.name} {what}"] = np.asarray(getattr(model, what))
    return out


def differences(before: dict[str, np.ndarray], now: dict[str, np.ndarray]) -> list[str]:
    """Return one line per array that is missing or differs."""
    learners = {method.name for method in cw.methods("classes") if method.needs_features}
    lines = [f"{name}: only {'before' if name in before else 'now'}" for name in sorted(before.keys() ^ now.keys())]
    for name in sorted(before.keys() & now.keys()):
        old, new = before[name], now[name]
        if old.dtype.kind == "f" and name.split()[1] in learners:
            same = old.shape == new.shape and np.allclose(old, new, rtol=0, atol=TOLERANCE, equal_nan=True)
        else:
            same = np.array_equal(old, new, equal_nan=old.dtype.kind == "f")
        if not same:
            lines.append(f"{name}: differs")
    return lines


def main() -> None:
    """Write the fixture, or compare with it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="store the current results")
    warnings.simplefilter("ignore")
    if parser.parse_args().write:
        inputs = make_inputs()
        np.savez_compressed(FIXTURE, **inputs, **fit_all(inputs))
        print(f"wrote {FIXTURE} ({FIXTURE.stat().st_size:,} bytes)")
        return
    with np.load(FIXTURE) as saved:
        before = {name: saved[name] for name in saved.files}
    inputs = {name: before.pop(name) for name in list(before) if name.split()[1] in ("X", "answers")}
    lines = differences(before, fit_all(inputs))
    print("\n".join(lines) or f"{len(before)} arrays of {len(cw.methods('classes'))} methods are unchanged")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
