"""Pseudonyms of workers: the answers stay the same, and the original ids disappear."""

import stat

import numpy as np
import pyarrow as pa
import pytest

import crowdwise as cw
from crowdwise.answers.pseudonyms import hash_ids, pseudonymised, read_key
from crowdwise.errors import CrowdwiseWarning, ParameterError

KEY = b"a key that nobody guesses"


def crowd():
    answers = cw.simulate.simulate(60, n_workers=12, n_classes=3, answers_per_task=4, seed=1)
    return cw.Answers.from_arrays(
        answers.task, [f"ann-{w}@example.org" for w in answers.worker], answers.label,
        weight=np.linspace(0.5, 1, answers.n_answers),
    ).with_truth(answers.truth)  # fmt: skip


def test_only_worker_ids_change():
    answers = crowd()
    other, row = pseudonymised(answers, KEY)
    name = dict(zip(answers.workers, hash_ids(answers.worker_ids, KEY).to_pylist(), strict=True))
    expected = {(t, name[w]): (label, weight) for t, w, label, weight in rows(answers)}
    assert {(t, w): (label, weight) for t, w, label, weight in rows(other)} == expected
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


def test_inferred_labels_do_not_depend_on_pseudonyms():
    answers = crowd()
    other, _ = pseudonymised(answers, KEY)
    np.testing.assert_allclose(cw.DawidSkene().fit(other).proba_, cw.DawidSkene().fit(answers).proba_, atol=1e-9)


def test_pseudonyms_depend_only_on_key_and_id():
    ids = pa.array(["ann", None, "bob"])
    hashed = hash_ids(ids, KEY).to_pylist()
    assert hashed == hash_ids(ids, KEY).to_pylist() == hash_ids(ids.take([2, 1, 0]), KEY).to_pylist()[::-1]
    assert hashed[1] is None and hashed[0] != hashed[2] and all(len(name) == 18 for name in hashed if name)
    assert not set(hashed) & set(hash_ids(ids, KEY + b"!").to_pylist()) - {None}
    assert hash_ids(ids.cast(pa.large_string()), KEY).to_pylist() == hashed
    numbers = hash_ids(pa.array([1, 2]), KEY).to_pylist()
    assert numbers == hash_ids(pa.array([1, 2], pa.int32()), KEY).to_pylist()
    assert numbers == hash_ids(pa.array(["1", "2"]), KEY).to_pylist()  # the column may become text later
    with pytest.raises(ParameterError, match="5 bytes"):
        hash_ids(ids, b"short")


def test_key_file_is_created_once_and_readable_by_its_owner_only(tmp_path):
    key = read_key(tmp_path / "key")
    assert key == read_key(tmp_path / "key") and len(key) == 64
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert read_key(tmp_path / "other") != key and len(list(tmp_path.iterdir())) == 2
    with pytest.raises(ParameterError, match="neither read nor created"):
        read_key(tmp_path / "none" / "key")


def test_invalid_or_exposed_key_files_are_reported(tmp_path):
    (tmp_path / "short").write_text("abc\n")
    with pytest.raises(ParameterError, match=r"short.* has 3 bytes"):
        read_key(tmp_path / "short")
    with pytest.raises(ParameterError, match="neither read nor created"):
        read_key(tmp_path)
    read_key(tmp_path / "key")
    (tmp_path / "key").chmod(0o644)
    with pytest.warns(CrowdwiseWarning, match="other users can read the key file .*chmod 600"):
        read_key(tmp_path / "key")


def test_key_may_be_given_as_a_path(tmp_path):
    other, _ = pseudonymised(crowd(), tmp_path / "key")
    assert other == pseudonymised(crowd(), read_key(tmp_path / "key"))[0]
    assert not set(other.workers) & set(pseudonymised(crowd(), tmp_path / "second")[0].workers)
