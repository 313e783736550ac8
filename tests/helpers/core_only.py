"""Use the core without the extras: `python core_only.py MODULE...` makes these modules impossible to import.

It writes to the current folder.
"""

import sys


class Hidden:
    """An import hook that raises `ModuleNotFoundError` for these modules, as if they were not installed."""

    def __init__(self, names):
        self.names = frozenset(names)

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def use():
    from typer.testing import CliRunner

    import crowdwise as cw
    from crowdwise._core.registry import methods
    from crowdwise.cli import app
    from crowdwise.errors import MissingDependencyError

    answers = cw.simulate.simulate(60, n_workers=8, n_classes=2, answers_per_task=4, seed=0)
    for method in methods("classes"):
        if method.needs_features:
            continue
        gold = {0: 1, 1: 0, 2: 1} if method.name == "gold-vote" else None
        fitted = cw.make(method.name).fit(answers, gold)
        assert fitted.proba_.shape == (60, 2), method.name
    for name in ("a.csv", "a.tsv.gz", "a.jsonl", "a.parquet"):
        cw.write(answers, name)
        assert cw.read(name).n_answers == 240
    cw.DawidSkene().fit(answers).save("model")
    assert (cw.load("model").codes_ == cw.DawidSkene().fit(answers).codes_).all()
    for line in ("inspect a.csv", "aggregate a.csv --out labels.csv", "next a.csv --budget 5", "methods"):
        result = CliRunner().invoke(app, line.split())
        assert result.exit_code == 0, result.output
    for call in (answers.to_frame, lambda: cw.CrowdLayer):
        try:
            call()
        except MissingDependencyError as error:
            assert "pip install " in str(error), error
        else:
            raise AssertionError("a hidden module was imported")


if __name__ == "__main__":
    sys.meta_path.insert(0, Hidden(sys.argv[1:]))
    use()
