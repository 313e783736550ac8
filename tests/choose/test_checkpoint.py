"""Stored fits: a killed choice resumes to the same result, and fits of other problems are not reused."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import crowdwise as cw
from crowdwise._core.fingerprints import fingerprint
from crowdwise.choose import choose
from crowdwise.choose.checkpoint import FitStore, read, write
from crowdwise.choose.scores import CaughtWarning, Outcome
from crowdwise.errors import CrowdwiseError, UnwritableError
from tests.helpers.choose_candidates import QUICK, Failing


class Killed(Exception):
    pass


def stop_after(n):
    """A callback that kills the run after this many fits."""

    def callback(record):
        if record["done"] == n:
            raise Killed

    return callback


def kept(crowd, folder, **options):
    """Return how many fits are read from the folder."""
    records = []
    choose(crowd, checkpoint=folder, callback=records.append, **{"candidates": QUICK, "folds": 3, **options})
    return sum(record["kept"] for record in records)


def same(one, other):
    assert json.dumps(one.as_dict(seconds=False)) == json.dumps(other.as_dict(seconds=False))
    for name, score in one.scores.items():
        assert score.tobytes() == other.scores[name].tobytes()


@pytest.mark.parametrize("n", [1, 4, 9])
def test_a_killed_choice_resumes_to_the_same_result(crowd, tmp_path, n):
    whole = choose(crowd, candidates=QUICK, folds=3)
    with pytest.raises(Killed):
        choose(crowd, candidates=QUICK, folds=3, checkpoint=tmp_path, callback=stop_after(n))
    records = []
    resumed = choose(crowd, candidates=QUICK, folds=3, checkpoint=tmp_path, callback=records.append)
    same(whole, resumed)
    assert [record["kept"] for record in records] == [True] * n + [False] * (9 - n)
    assert [record["done"] for record in records] == list(range(1, 10))
    assert kept(crowd, tmp_path) == 9


def test_learners_and_several_processes(featured, tmp_path):
    X, answers = featured
    models = {"raykar": cw.Raykar(max_iter=2, tol=0), "vague": cw.DawidSkene(max_iter=1)}  # the last one warns
    whole = choose(answers, X, models, folds=2)
    same(whole, choose(answers, X, models, folds=2, n_jobs=2, checkpoint=tmp_path))
    again = choose(answers, X, models, folds=2, checkpoint=tmp_path)
    same(whole, again)
    assert again.entries[2].warnings


@pytest.mark.parametrize(
    "options",
    [
        {"candidates": [cw.OneCoin(max_iter=9), cw.DawidSkene(max_iter=9)]},
        {"criterion": "own"},
        {"folds": 2},
        {"random_state": 1},
    ],
    ids=str,
)
def test_other_settings_do_not_reuse_fits(crowd, tmp_path, options):
    choose(crowd, candidates=QUICK, folds=3, checkpoint=tmp_path)
    vote = 3 if "candidates" in options else 0  # majority vote is the same
    assert kept(crowd, tmp_path, **options) == vote


def test_other_data_do_not_reuse_fits(crowd, featured, tmp_path):
    assert kept(crowd, tmp_path) == 0
    changed = replace(crowd, label=np.where(np.arange(crowd.n_answers) == 5, (crowd.label + 1) % 3, crowd.label))
    assert kept(changed, tmp_path) == 0
    assert kept(replace(crowd, weight=np.full(crowd.n_answers, 2.0)), tmp_path) == 0
    X, answers = featured
    other = X.copy()
    other[77, 1] += 1e-3
    assert kept(answers, tmp_path, X=X, folds=2) == 0
    assert kept(answers, tmp_path, X=other, folds=2) == 0
    assert kept(answers, tmp_path, X=X.copy(), folds=2) == 6
    assert kept(crowd, tmp_path) == 9  # all of them share the folder


def test_labels_and_order_of_candidates_do_not_matter(crowd, tmp_path):
    choose(crowd, candidates=QUICK, folds=3, checkpoint=tmp_path)
    assert kept(crowd, tmp_path, candidates={"b": "dawid-skene", "a": cw.OneCoin()}) == 9


def test_failed_fits_are_retried(crowd, tmp_path):
    models = {"failing": Failing(), "fine": "one-coin"}
    first = choose(crowd, candidates=models, folds=2, checkpoint=tmp_path)
    assert kept(crowd, tmp_path, candidates=models, folds=2) == 4
    same(first, choose(crowd, candidates=models, folds=2, checkpoint=tmp_path))


def test_damaged_files_are_refitted(crowd, tmp_path):
    whole = choose(crowd, candidates=QUICK, folds=3, checkpoint=tmp_path)
    files = sorted(tmp_path.iterdir())
    for damage, file in zip((b"", b"{}", files[2].read_bytes()[:-7], bytes(50)), files, strict=False):
        file.write_bytes(damage)
    records = []
    same(whole, choose(crowd, candidates=QUICK, folds=3, checkpoint=tmp_path, callback=records.append))
    assert sum(record["kept"] for record in records) == 5


def test_outcome_round_trip(tmp_path):
    scores, sums = np.random.default_rng(0).normal(size=7), np.ones((3, 13))
    for outcome in (
        Outcome(scores, 1.5, None, (CaughtWarning("UserWarning", "é"),), sums),
        Outcome(scores, 0.1, None, ()),
    ):
        write(tmp_path / "fit", outcome)
        back = read(tmp_path / "fit")
        assert back.scores.tobytes() == scores.tobytes()
        assert (back.seconds, back.failure, back.warnings) == outcome[1:4]
        assert (back.curves is None) == (outcome.curves is None)
    write(tmp_path / "bad", Outcome(None, 1.0, "failed", ()))
    assert read(tmp_path / "bad") is None
    assert [file.name for file in tmp_path.iterdir()] == ["fit"]  # no partial files


def test_a_folder_that_cannot_be_created_is_rejected(crowd, tmp_path):
    with pytest.raises(UnwritableError, match=r"checkpoint=.*Give another"):
        choose(crowd, checkpoint=tmp_path / "no" / "such")
    (tmp_path / "file").write_text("")
    with pytest.raises(UnwritableError, match="checkpoint="):
        choose(crowd, checkpoint=tmp_path / "file")


def test_a_missing_folder_is_reported(tmp_path):
    with pytest.raises(CrowdwiseError, match="cannot be written"):
        write(tmp_path / "gone" / "fit", Outcome(np.ones(3), 1.0, None, ()))


# File names


def named():
    pass


def test_fingerprints_distinguish_settings():
    values = [
        cw.DawidSkene(), cw.DawidSkene(max_iter=5), cw.OneCoin(), "one-coin", 1, 1.0, "1", True, None, [1], (1,),
        {"a": 1}, {"a": 2}, named, np.arange(5000), np.arange(5000) + (np.arange(5000) == 2500), np.arange(5000.0),
        np.zeros((2, 3)), np.zeros((3, 2)), cw.Aggregated("dawid-skene"), cw.Aggregated(cw.DawidSkene(max_iter=5)),
    ]  # fmt: skip
    assert len({fingerprint(value) for value in values}) == len(values)


def test_fingerprints_of_networks_include_weights():
    torch = pytest.importorskip("torch")
    one, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    assert fingerprint(one) != fingerprint(other)
    other.load_state_dict(one.state_dict())
    assert fingerprint(one) == fingerprint(other)


def test_names_are_the_same_in_another_process(crowd, tmp_path):
    name = FitStore(tmp_path, crowd, None, "common").fit_path(cw.OneCoin(max_iter=3), crowd.task < 9).name
    code = (
        "import crowdwise as cw, sys; from crowdwise.choose.checkpoint import FitStore;"
        "crowd = cw.simulate.simulate(300, n_workers=12, n_classes=3, answers_per_task=4, seed=3);"
        "print(FitStore(sys.argv[1], crowd, None, 'common').fit_path(cw.OneCoin(max_iter=3), crowd.task < 9).name)"
    )
    found = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == name
