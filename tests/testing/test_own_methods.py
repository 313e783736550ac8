"""Methods of users go wherever those of crowdwise go."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import crowdwise as cw
from crowdwise._core import own_classes, registry
from crowdwise.errors import CrowdwiseWarning, ModelFileError, ParameterError, WeightError
from crowdwise.learn.adapter import LearnerAdapter, as_model
from crowdwise.testing import Subject, check_method, checks
from crowdwise.truth.adapter import TruthAdapter
from tests.helpers.crowds import answers_of, blobs, uneven
from tests.helpers.own_methods import Broken, Centres, Logistic, Shares, Sharpened, Votes

OWN = [Sharpened(), Votes(), Shares(), Logistic(), Centres()]
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def own_names(monkeypatch):
    """Names that a test registers are forgotten after it."""
    monkeypatch.setattr(registry, "_OWN", {})


@pytest.fixture(scope="module")
def crowd():
    X, truth = blobs(n_tasks=120)
    return X, answers_of(truth, uneven()), truth


@pytest.mark.parametrize("method", OWN, ids=lambda method: type(method).__name__)
def test_checks_pass(method):
    check_method(method)


def test_check_method_names_the_property_that_fails():
    with pytest.raises(AssertionError, match=r"check_order_of_rows_does_not_matter: .*any order"):
        check_method(Broken())
    assert [check.__name__ for check in checks("joint-em")] != [check.__name__ for check in checks(Votes())]


def test_ratings_have_no_checks():
    with pytest.raises(ParameterError, match=r"Mean\(\) takes ratings"):
        check_method(cw.Mean())


def test_checks_can_run_one_by_one():
    for check in checks(Votes()):
        check(Subject(Votes()))


def test_they_are_compared(crowd):
    X, answers, _ = crowd
    choice = cw.choose.choose(answers, X, [*OWN, "one-coin"], folds=2)
    assert [entry.candidate for entry in choice.entries if entry.failure] == []
    assert set(choice.ranking_) == {
        "majority-vote", "Sharpened()", "Votes()", "Shares()", "Logistic()", "Centres()", "one-coin",
    }  # fmt: skip
    labelled = cw.choose.choose(answers, candidates={"more": Shares(extra=0.5), "less": Shares(extra=0.1)}, folds=2)
    assert set(labelled.ranking_) == {"majority-vote", "more", "less"}


@pytest.mark.parametrize("method", [Shares(), Centres()], ids=lambda method: type(method).__name__)
def test_a_run_uses_them_and_writes_everything(method, crowd, tmp_path):
    X, answers, truth = crowd
    folder = tmp_path / "run"
    settings = {
        "method": method, "features": X, "gold": {0: int(truth[0])}, "truth": answers.classes[truth], "n_jobs": 1,
    }  # fmt: skip
    run = cw.run(answers, folder, **settings)
    assert run.metrics["method"] == str(as_model(method))
    loaded = cw.run.Run(folder)
    assert isinstance(loaded.model, (TruthAdapter, LearnerAdapter))
    assert type(loaded.model.model) is type(method)
    assert (folder / "report.html").stat().st_size > 10_000
    again = cw.run(answers, folder, **settings, resume=True)
    assert again.labels.equals(run.labels)
    with pytest.raises(ParameterError, match="method was"):
        cw.run(answers, folder, **{**settings, "method": Shares(extra=9.0)}, resume=True)


def test_several_are_compared_in_a_run(crowd):
    _, answers, _ = crowd
    run = cw.run(answers, method=["one-coin", Sharpened(), Votes()])
    assert {"majority-vote", "one-coin", "Sharpened()", "Votes()"} <= {row["name"] for row in run.metrics["methods"]}
    with pytest.raises(ParameterError, match="two models are shown as 'Shares"):
        cw.run(answers, method=[Shares(extra=0.5), Shares(extra=0.1)])
    with pytest.raises(ParameterError, match=r"Centres.* learns from features"):
        cw.run(answers, method=Centres())


@pytest.mark.filterwarnings("ignore:no pseudo-answers were added")
def test_frameworks_take_them(crowd, tmp_path):
    X, answers, truth = crowd
    for base in (Centres(), Logistic(), "aggregated(wawa)"):
        model = cw.DASC(base, iterations=1, hidden=0.0)
        if isinstance(base, str):
            model.set_params(base__epochs=2)
        model.fit(X, answers)
        model.save(tmp_path / "model")
        np.testing.assert_array_equal(cw.load(tmp_path / "model").predict(X), model.predict(X))
    assert cw.Pruned(Centres(), by=cw.WAUM(epochs=1)).fit(X, answers).score(X, truth) > 0.8
    own = cw.WAUM(trust=Shares(), epochs=1).fit(X, answers)
    np.testing.assert_array_equal(own.scores_, cw.WAUM(trust="naive-soft", epochs=1).fit(X, answers).scores_)
    assert cw.AUM(truth=Votes(), epochs=1).fit(X, answers).scores_.shape == (120,)
    model = cw.Aggregated(Shares(), "logistic", epochs=3).fit(X, answers)
    model.save(tmp_path / "model")
    same = cw.Aggregated("naive-soft", "logistic", epochs=3).fit(X, answers)
    np.testing.assert_array_equal(cw.load(tmp_path / "model").predict_proba(X), same.predict_proba(X))
    known = answers.with_truth(truth.astype(np.int32))
    assert cw.acquire.replay(known, "random", model=Votes(), step=0.5, seeds=[0]).num_rows > 0


def test_a_name_is_known_everywhere(crowd):
    X, answers, _ = crowd
    cw.register("my-votes", Votes, paper="Me 2026")
    cw.register("centres", Centres, what_for="the nearest centre")
    assert cw.methods()[-2].what_for == "Labels by the most votes, nothing else"
    assert [(m.name, m.needs_features) for m in cw.methods()[-2:]] == [("my-votes", False), ("centres", True)]
    assert isinstance(cw.make("my-votes"), TruthAdapter)
    assert str(cw.make("waum(centres)").base) == "Centres()"
    assert str(cw.make("aggregated(my-votes)").truth) == "Votes()"
    assert cw.run(answers, method="my-votes").metrics["method"] == "my-votes"
    choice = cw.choose.choose(answers, X, ["my-votes", "centres"], folds=2, n_jobs=2)  # known in child processes
    assert set(choice.ranking_) == {"majority-vote", "my-votes", "centres"}
    with pytest.raises(ParameterError, match="Did you mean my-votes"):
        cw.make("my-vote")


@pytest.mark.parametrize(
    ("name", "method", "match"),
    [("My Votes", Votes, "lower-case"), ("wawa", Votes, "is a method of crowdwise"), ("mine", Votes(), "use a class"),
     ("mine", dict, "use a class")],
)  # fmt: skip
def test_names_and_classes_are_checked(name, method, match):
    with pytest.raises(ParameterError, match=match):
        cw.register(name, method)


class EntryPoint:
    """As `importlib.metadata` describes one."""

    dist = None

    def __init__(self, name, found):
        self.name, self.found = name, found

    def load(self):
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def test_installed_packages_add_methods(monkeypatch):
    points = [EntryPoint("from-package", Shares), EntryPoint("broken", ImportError("no module named x"))]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == "crowdwise.methods" else [])
    registry._register_installed.cache_clear()
    with pytest.warns(CrowdwiseWarning, match="'broken' of a package was not registered: ImportError: no module"):
        assert cw.methods()[-1].name == "from-package"
    assert str(cw.make("from-package", extra=0.5)) == "Shares()"


def test_a_file_needs_the_class_to_be_known(crowd, tmp_path, monkeypatch):
    X, answers, _ = crowd
    model = as_model(Centres()).fit(X, answers)
    model.save(tmp_path / "model")
    program = "import sys, crowdwise; print(crowdwise.load(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "model"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "is a Centres of the module tests.helpers.own_methods" in done.stderr  # nothing was imported
    monkeypatch.setattr(own_classes, "_KNOWN", {})
    with pytest.raises(ModelFileError, match=r"register\('my-method', Centres\)"):
        cw.load(tmp_path / "model")
    cw.register("centres", Centres)
    np.testing.assert_array_equal(cw.load(tmp_path / "model").predict(X), model.predict(X))


class Wrong:
    """Returns what it is told."""

    def __init__(self, **results):
        vars(self).update(results)

    def fit(self, answers):
        pass


@pytest.mark.parametrize(
    ("results", "match"),
    [({}, "neither proba_ nor labels_"), ({"labels_": ["a"]}, "one label per task"),
     ({"proba_": np.ones((2, 2))}, "shape"), ({"proba_": np.full((120, 3), np.nan)}, "probabilities"),
     ({"proba_": np.full((120, 3), 1 / 3), "confusion_": np.eye(3)}, "confusion_ has shape")],
)  # fmt: skip
def test_invalid_results_are_rejected(results, match, crowd):
    with pytest.raises(ParameterError, match=match):
        as_model(Wrong(**results)).fit(crowd[1])


def test_other_objects_are_rejected(crowd):
    X, answers, _ = crowd
    with pytest.raises(ParameterError, match=r"classifier for known labels.*Aggregated"):
        cw.choose.choose(answers, X, [LogisticRegression()])
    for method in (7, Votes, object()):
        with pytest.raises(ParameterError, match="use a truth model, a learner"):
            cw.choose.choose(answers, X, [method])
    with pytest.raises(ParameterError, match=r"truth=.*use a truth model"):
        cw.AUM(truth=Centres()).fit(X, answers)
    weighted = cw.Answers.from_arrays([0, 0, 1], [0, 1, 0], [0, 1, 1], weight=[1.0, 0.5, 1.0])
    with pytest.raises(WeightError):
        as_model(Votes()).fit(weighted)
    with pytest.raises(ParameterError, match="does not take sample_weight"):
        as_model(Centres()).fit(X, answers, sample_weight=np.ones(120))
