"""EM of every model and setting, on lists in place of Spark: each iteration equals the local one, for any parts."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

import crowdwise as cw
from crowdwise import Answers, simulate
from crowdwise.engines.spark import agreement_counts, driver, glad, joined_em
from crowdwise.engines.spark.partitions import from_bytes, pack
from crowdwise.errors import ModelFileError, ParameterError
from crowdwise.evaluate import agreement as local_agreement
from tests.helpers.spark_lists import data_of, learn, matrices

engine = pytest.importorskip("crowdwise.engines.spark")
STEPS = {"max_iter": 6, "tol": 0}
WORKERS, CLASSES, LIMIT = 11, 3, 36
rng = np.random.default_rng(3)
PRIORS = rng.random((WORKERS, CLASSES, CLASSES))
CASES = [
    ("DawidSkene", STEPS),
    ("DawidSkene", {"prior": "hierarchical", "class_prior": "uniform", **STEPS}),
    ("DawidSkene", {"prior": None, "hard": True, **STEPS}),
    ("DawidSkene", {"prior": 0.3, "tol": 1e-4}),
    ("DawidSkene", {"prior": PRIORS[0], **STEPS}),
    ("DawidSkene", {"prior": PRIORS, **STEPS}),
    ("IBCC", STEPS),
    ("IBCC", {"alpha": 2.0, "a_v": 5.0, "b_v": 0.3, "tol": 1e-4}),
    ("WDS", {"base": cw.DawidSkene(**STEPS)}),
    ("WDS", {"base": cw.IBCC(**STEPS)}),
    ("OneCoin", STEPS),
    ("OneCoin", {"prior": None, "class_prior": "estimated", **STEPS}),
    ("GLAD", STEPS),
    ("GLAD", {"class_prior": "estimated", "log_easiness_mean": 0.5, "ability_mean": rng.random(WORKERS), **STEPS}),
    ("GLAD", {"class_prior": np.array([0.5, 0.2, 0.3]), "tol": 1e-3}),
    ("MajorityVote", {}),
    ("NaiveSoft", {"smoothing": 0.5}),
]  # fmt: skip
MATRICES = ("DawidSkene", "IBCC", "WDS")
LARGE = [(*case, True) for case in CASES if case[0] in MATRICES]  # only matrices grow with workers x classes²


@pytest.fixture(scope="module")
def crowds():
    """Answers, spark_ids and weighted, and known labels of some tasks."""
    drawn = simulate.simulate(n_tasks=60, n_workers=WORKERS, n_classes=CLASSES, answers_per_task=4, seed=2)
    columns = [f"t{task}" for task in drawn.task], [f"w{worker:02}" for worker in drawn.worker], drawn.label
    weight = np.random.default_rng(0).integers(0, 4, drawn.n_answers) / 2
    return Answers.from_arrays(*columns), Answers.from_arrays(*columns, weight), {"t3": 0, "t7": 2, "t50": 1}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Make blocks of four workers."""
    monkeypatch.setattr(joined_em, "CELLS", 4 * CLASSES**2)


def fits(name, settings, answers, gold):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cw.errors.ConvergenceWarning)
        return getattr(engine, name)(**settings), getattr(cw, name)(**settings).fit(answers, gold)


@pytest.mark.parametrize(("name", "settings", "large"), [*[(*case, False) for case in CASES], *LARGE])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_iteration_equals_the_local_one(crowds, tmp_path, monkeypatch, name, settings, large, weighted):
    monkeypatch.setattr(driver, "MAX_DRIVER_SUMS", 2)  # with five parts, sums are first added in the cluster
    answers, gold = crowds[weighted], crowds[2] if weighted else None
    model, local = fits(name, settings, answers, gold)
    for parts in (1, 5):
        data, options = data_of(answers, gold, parts=parts, seed=parts), {"limit": LIMIT, "folder": tmp_path}
        proba, difficulty = learn(model, data, **options if large else {})
        np.testing.assert_allclose(proba, local.proba_, atol=1e-8)
        np.testing.assert_allclose(model.history_ if local.history_ else [], local.history_, rtol=1e-11)
        if name in MATRICES:
            of = model if name != "WDS" else model._base
            assert len(of.blocks.rows) == (3 if large else 1)
            np.testing.assert_allclose(matrices(of), local.confusion_, atol=1e-8)
        for attribute in {"ability_", "skill_", "class_prior_"} & set(vars(local)):
            np.testing.assert_allclose(getattr(model.model, attribute), getattr(local, attribute), atol=1e-8)
        if name == "GLAD":
            np.testing.assert_allclose(difficulty, local.difficulty_, rtol=1e-8)


@pytest.mark.parametrize("name", ["GLAD", "DawidSkene", "IBCC", "OneCoin"])
@pytest.mark.parametrize("at", [0, 2])
def test_an_interrupted_fit_resumes_to_the_same_result(crowds, tmp_path, name, at):
    def interrupt(iteration, bound):
        if iteration == at:
            raise KeyboardInterrupt

    answers, gold = crowds[1:]
    model, local = fits(name, STEPS, answers, gold)
    data, options = data_of(answers, gold), {"limit": LIMIT, "folder": tmp_path}
    with pytest.raises(KeyboardInterrupt):
        learn(model, data, callback=interrupt, **options)
    iterations = []
    proba, _ = learn(
        model, data, resume=True, callback=lambda iteration, bound: iterations.append(iteration), **options
    )
    assert iterations == list(range(at, STEPS["max_iter"]))
    np.testing.assert_allclose(proba, local.proba_, atol=1e-8)
    np.testing.assert_allclose(model.history_, local.history_, rtol=1e-11)


@pytest.mark.parametrize("name", ["GLAD", "DawidSkene", "IBCC"])
@pytest.mark.parametrize("at", [3, 4])
def test_a_driver_killed_while_writing_a_checkpoint_loses_one_iteration(crowds, tmp_path, name, at):
    answers = crowds[0]
    model, local = fits(name, STEPS, answers, None)
    data, options = data_of(answers), {"limit": LIMIT, "folder": tmp_path}
    data.spark.dies_at = at  # the first write comes from the vote shares, so this is iteration at - 1
    with pytest.raises(KeyboardInterrupt):
        learn(model, data, **options)
    iterations = []
    proba, _ = learn(
        model, data, resume=True, callback=lambda iteration, bound: iterations.append(iteration), **options
    )
    assert iterations == list(range(at - 2, STEPS["max_iter"]))
    np.testing.assert_allclose(proba, local.proba_, atol=1e-8)
    np.testing.assert_allclose(model.history_, local.history_, rtol=1e-11)


def test_a_newton_step_that_is_too_long_is_halved_as_locally(crowds, monkeypatch):
    """With high prior means, probabilities are near 1, curvatures small, and steps too long."""
    abilities, tries = {}, []

    def recorded(kind, step):
        def m_step(self, work, statistics, parameters):
            tries.append(0)
            found = step(self, work, statistics, parameters)
            abilities.setdefault(kind, []).append(found.ability.copy())
            return found

        return m_step

    def heights(self, candidate, original=glad.SparkGLAD._heights):
        tries[-1] += 1
        return original(self, candidate)

    for kind in (glad.SparkGLAD, cw.GLAD):
        monkeypatch.setattr(kind, "_m_step", recorded(kind, kind._m_step))
    monkeypatch.setattr(glad.SparkGLAD, "_heights", heights)
    settings = {"log_easiness_mean": 3.0, "ability_mean": 3.0, **STEPS}
    model, local = fits("GLAD", settings, crowds[0], None)
    tries.clear()
    learn(model, data_of(crowds[0]))
    assert sum(n > 1 for n in tries) > 2 and max(tries) > 2  # in several iterations, and twice in one of them
    np.testing.assert_allclose(abilities[glad.SparkGLAD], abilities[cw.GLAD], atol=1e-8)
    np.testing.assert_allclose(model.history_, local.history_, rtol=1e-11)


def test_the_broadcast_limit_does_not_change_the_block_size(crowds, tmp_path):
    model = engine.DawidSkene(max_iter=2, tol=0)
    learn(model, data_of(crowds[0]), limit=1, folder=tmp_path)
    assert len(model.blocks.rows) == 3


def test_a_checkpoint_with_other_parts_or_blocks_is_refused(crowds, tmp_path, monkeypatch):
    answers = crowds[0]
    learn(engine.GLAD(max_iter=2, tol=0), data_of(answers, parts=3), folder=tmp_path / "a")
    with pytest.raises(ModelFileError, match="parts=3"):
        learn(engine.GLAD(**STEPS), data_of(answers, parts=4), folder=tmp_path / "a", resume=True)
    (tmp_path / "a" / "easiness-1" / "_SUCCESS").unlink()
    (tmp_path / "a" / "easiness-0" / "_SUCCESS").unlink()
    with pytest.raises(ModelFileError, match="must share the folder"):
        learn(engine.GLAD(**STEPS), data_of(answers, parts=3), folder=tmp_path / "a", resume=True)
    learn(engine.IBCC(max_iter=2, tol=0), data_of(answers), limit=LIMIT, folder=tmp_path / "b")
    monkeypatch.setattr(joined_em, "CELLS", 6 * CLASSES**2)
    with pytest.raises(ModelFileError, match="3 blocks of workers, not 2"):
        learn(engine.IBCC(**STEPS), data_of(answers), limit=LIMIT, folder=tmp_path / "b", resume=True)


@pytest.mark.parametrize(
    ("name", "settings", "argument"),
    [
        ("GLAD", {"log_easiness_mean": np.ones(60)}, "log_easiness_mean"),
        ("GLAD", {"ability_mean": np.ones(3)}, "ability_mean"),
        ("DawidSkene", {"n_init": 2}, "n_init"),
        ("IBCC", {"warm_start": True}, "warm_start"),
        ("WDS", {"base": cw.EBCC()}, "base"),
        ("WDS", {"base": cw.DawidSkene(n_init=2)}, "n_init"),
        ("DawidSkene", {"prior": np.ones((2, 3, 3))}, "prior"),
    ],
)
def test_settings_without_support_on_spark_are_refused(crowds, tmp_path, name, settings, argument):
    for limit in (10**6, LIMIT):
        with pytest.raises(ParameterError, match=f"{argument}="):
            learn(getattr(engine, name)(**settings), data_of(crowds[0]), limit=limit, folder=tmp_path)


def test_a_part_with_gold_only_lists_its_unanswered_tasks():
    columns = {
        "part": pa.array([4], pa.int32()), "task": ["no one"], "worker": pa.nulls(1, pa.int64()),
        "label": pa.array([1], pa.int32()), "weight": pa.nulls(1, pa.float64()), "row": pa.nulls(1, pa.int64()),
    }  # fmt: skip
    packed = pack(pa.table(columns), 2, "error", True, True).to_pylist()[0]
    assert from_bytes(packed["unanswered"]).to_pydict() == {"task": ["no one"]}
    assert (packed["part"], packed["tasks"], packed["answers"], packed["repeats"]) == (4, 0, 0, 0)


def test_pair_counts_of_parts_add_up_to_the_local_agreement(crowds):
    answers = crowds[0]
    parts = data_of(answers, parts=4).parts.rows
    count = agreement_counts._sum([agreement_counts._count(packed, CLASSES) for _, packed in parts])
    assert local_agreement.alpha_from_counts(count) == pytest.approx(cw.evaluate.krippendorff_alpha(answers), abs=1e-12)
    assert local_agreement.agreement_from_counts(count) == cw.evaluate.pairwise_agreement(answers)
    assert local_agreement.kappa_from_counts(count) == pytest.approx(cw.evaluate.fleiss_kappa(answers), abs=1e-12)
