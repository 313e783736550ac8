"""Names for workers: the same answers, other ids, nothing of the old ones left."""

import stat

import numpy as np
import pyarrow as pa
import pytest

import crowdwise as cw
from crowdwise.answers.pseudonyms import key_of, names, pseudonymised
from crowdwise.errors import CrowdwiseWarning, ParameterError

KEY = b"a key that nobody guesses"


def crowd():
    answers = cw.simulate.simulate(60, n_workers=12, n_classes=3, answers_per_task=4, seed=1)
    return cw.Answers.from_arrays(
        answers.task, [f"ann-{w}@example.org" for w in answers.worker], answers.label,
        weight=np.linspace(0.5, 1, answers.n_answers),
    ).with_truth(answers.truth)  # fmt: skip


def test_only_the_names_of_workers_change():
    answers = crowd()
    other, row = pseudonymised(answers, KEY)
    name = dict(zip(answers.workers, names(answers.worker_ids, KEY).to_pylist(), strict=True))
    told = {(t, name[w]): (label, weight) for t, w, label, weight in rows(answers)}
    assert {(t, w): (label, weight) for t, w, label, weight in rows(other)} == told
    assert (answers.task[row] == other.task).all() and (answers.label[row] == other.label).all()
    assert (other.truth == answers.truth).all() and other.tasks.tolist() == answers.tasks.tolist()
    assert other.workers.tolist() == sorted(name.values())


def rows(answers):
    return zip(
        answers.task.tolist(),
        answers.workers[answers.worker],
        answers.label.tolist(),
        answers.weight.tolist(),
        strict=True,
    )


def test_labels_do_not_depend_on_names():
    answers = crowd()
    other, _ = pseudonymised(answers, KEY)
    np.testing.assert_allclose(cw.DawidSkene().fit(other).proba_, cw.DawidSkene().fit(answers).proba_, atol=1e-9)


def test_names_follow_from_key_and_id_alone():
    some = pa.array(["ann", None, "bob"])
    found = names(some, KEY).to_pylist()
    assert found == names(some, KEY).to_pylist() == names(some.take([2, 1, 0]), KEY).to_pylist()[::-1]
    assert found[1] is None and found[0] != found[2] and all(len(name) == 18 for name in found if name)
    assert not set(found) & set(names(some, KEY + b"!").to_pylist()) - {None}
    assert names(some.cast(pa.large_string()), KEY).to_pylist() == found
    numbers = names(pa.array([1, 2]), KEY).to_pylist()
    assert numbers == names(pa.array([1, 2], pa.int32()), KEY).to_pylist()
    assert not set(numbers) & set(names(pa.array(["1", "2"]), KEY).to_pylist())
    with pytest.raises(ParameterError, match="5 bytes"):
        names(some, b"short")


def test_a_key_is_made_once_and_for_its_owner_alone(tmp_path):
    key = key_of(tmp_path / "key")
    assert key == key_of(tmp_path / "key") and len(key) == 64
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert key_of(tmp_path / "other") != key and len(list(tmp_path.iterdir())) == 2
    with pytest.raises(ParameterError, match="neither be read nor made"):
        key_of(tmp_path / "none" / "key")


def test_a_key_that_is_short_no_file_or_open_to_others_is_named(tmp_path):
    (tmp_path / "short").write_text("abc\n")
    with pytest.raises(ParameterError, match=r"short.* has 3 bytes"):
        key_of(tmp_path / "short")
    with pytest.raises(ParameterError, match="neither be read nor made"):
        key_of(tmp_path)
    key_of(tmp_path / "key")
    (tmp_path / "key").chmod(0o644)
    with pytest.warns(CrowdwiseWarning, match="others may read the key .*chmod 600"):
        key_of(tmp_path / "key")


def test_a_file_may_stand_for_the_key(tmp_path):
    other, _ = pseudonymised(crowd(), tmp_path / "key")
    assert other == pseudonymised(crowd(), key_of(tmp_path / "key"))[0]
    assert not set(other.workers) & set(pseudonymised(crowd(), tmp_path / "second")[0].workers)
