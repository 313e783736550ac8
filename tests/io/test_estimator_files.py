import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import crowdwise as cw
from crowdwise.errors import CrowdwiseWarning, ModelFileError
from crowdwise.io import estimator_files
from tests.helpers.crowds import answers_of, blobs, uneven
from tests.io.test_model_files import rewrite

CLASSIFIERS = [
    LogisticRegression(C=0.5), LogisticRegression(class_weight={0: 2.0, 1: 1.0, 2: 1.0}), GaussianNB(),
    LinearDiscriminantAnalysis(), QuadraticDiscriminantAnalysis(reg_param=0.1), DecisionTreeClassifier(max_depth=4),
    ExtraTreeClassifier(random_state=0), RandomForestClassifier(4, random_state=0, max_samples=0.5, oob_score=True),
    ExtraTreesClassifier(3, random_state=0), DummyClassifier(),
    make_pipeline(StandardScaler(), MinMaxScaler(), RobustScaler(), PCA(2), LogisticRegression()),
]  # fmt: skip


@pytest.fixture(scope="module")
def crowd():
    X, truth = blobs(n_tasks=90)
    return X, answers_of(truth, uneven())


@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")
@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda each: type(each).__name__)
def test_classifiers_are_saved_without_pickle(classifier, crowd, tmp_path):
    X, answers = crowd
    model = cw.Aggregated("wawa", classifier, soft=False).fit(X, answers)
    model.save(tmp_path / "model")
    loaded = cw.load(tmp_path / "model")
    np.testing.assert_allclose(
        loaded.predict_proba(X), model.predict_proba(X), atol=1e-6
    )  # the order in memory may differ
    np.testing.assert_allclose(loaded.answer_proba(X), model.answer_proba(X), atol=1e-6)
    assert repr(loaded) == repr(model)
    again = loaded.fit(X, answers)  # the parameter is there, too
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_every_class_of_the_list_is_tested():
    inside = [step for classifier in CLASSIFIERS for _, step in getattr(classifier, "steps", [])]
    assert {type(each).__name__ for each in [*CLASSIFIERS, *inside]} == set(estimator_files.MODULES)


@pytest.mark.parametrize(
    "model",
    [cw.Raykar(GaussianNB(), max_iter=2, tol=0.0), cw.CrowdLab(RandomForestClassifier(3, random_state=0)),
     cw.JointEM(LogisticRegression(), features=StandardScaler(), max_iter=2),
     cw.DASC(cw.Raykar(DecisionTreeClassifier(max_depth=2), max_iter=2, tol=0.0), iterations=1, hidden=0.0)],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:no pseudo-answers were added")
def test_every_model_around_a_classifier_is_saved(model, crowd, tmp_path):
    X, answers = crowd
    model.fit(X, answers).save(tmp_path / "model")
    loaded = cw.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.answer_proba(X), model.answer_proba(X))


@pytest.mark.parametrize(
    ("field", "change"),
    [("left_child", lambda nodes: nodes * 0), ("right_child", lambda nodes: nodes + 1000),
     ("feature", lambda nodes: nodes + 6), ("feature", lambda nodes: nodes.astype(np.int32)),
     ("threshold", lambda nodes: nodes[:-1]), ("values", lambda nodes: nodes[:, :, :-1]),
     ("n_classes", lambda classes: classes * 1000)],
)  # fmt: skip
def test_damaged_trees_are_rejected(field, change, crowd, tmp_path):
    """Compiled code follows the nodes: a child out of range would read any memory."""
    cw.Aggregated("wawa", DecisionTreeClassifier(), soft=False).fit(*crowd).save(tmp_path / "model")
    name = next(name for name in load_file(tmp_path / "model") if name.endswith(f"tree_/{field}"))
    new = {name: np.ascontiguousarray(change(load_file(tmp_path / "model")[name]))}
    with pytest.raises(ModelFileError, match="decision tree are invalid"):
        cw.load(rewrite(tmp_path / "model", tmp_path / "damaged", listed=True, **new))


def test_another_version_of_scikit_learn_is_told(crowd, tmp_path, monkeypatch):
    cw.Aggregated("wawa", GaussianNB(), soft=False).fit(*crowd).save(tmp_path / "model")
    monkeypatch.setattr("sklearn.__version__", "99.0")
    with pytest.warns(CrowdwiseWarning, match=r"GaussianNB of scikit-learn .*; 99.0 is installed"):
        cw.load(tmp_path / "model")
    with pytest.raises(ValueError, match="unknown estimator 'SVC'"):
        estimator_files.from_plain("SVC", "99.0", {})
