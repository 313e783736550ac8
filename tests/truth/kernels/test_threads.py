import threading

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.errors import ParameterError
from crowdwise.truth.kernels.threads import available, compiled, run, threads_for, use_threads


@compiled
def add_one(first, end, values):
    for i in range(first, end):
        values[i] += 1.0


@pytest.mark.parametrize("n", [0, 1, 2, 7, 1000])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_row_is_visited_once(n, threads):
    values = np.zeros(n)
    with use_threads(threads):
        run(add_one, n, values)
        run(add_one, n, values, parts=3)
    np.testing.assert_array_equal(values, 2)


def test_an_error_in_a_thread_reaches_the_caller():
    def broken(first, end):
        message = f"part {first} to {end}"
        raise ValueError(message)

    with use_threads(2), pytest.raises(ValueError, match="part"):
        run(broken, 10)


def test_small_fits_use_one_thread():
    seen = set()

    def note(first, end):
        seen.add(threading.current_thread().name)

    with threads_for(100):
        run(note, 10)
    assert seen == {threading.current_thread().name}


def test_number_of_threads_from_the_environment(monkeypatch):
    monkeypatch.setenv("CROWDWISE_THREADS", "3")
    assert available() == 3
    for wrong in ("0", "many", "-1"):
        monkeypatch.setenv("CROWDWISE_THREADS", wrong)
        with pytest.raises(ParameterError, match="CROWDWISE_THREADS"):
            available()
    monkeypatch.delenv("CROWDWISE_THREADS")
    assert available() >= 1


def test_fits_in_threads_are_independent():
    crowds = [cw.simulate.simulate(20_000, n_workers=50, n_classes=4, answers_per_task=4, seed=s) for s in range(4)]
    alone = [cw.DawidSkene().fit(answers).proba_ for answers in crowds]
    together: dict[int, np.ndarray] = {}

    def fit(i):
        together[i] = cw.DawidSkene().fit(crowds[i]).proba_

    threads = [threading.Thread(target=fit, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(4):
        np.testing.assert_array_equal(together[i], alone[i])
