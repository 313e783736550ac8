"""Concurrent fits in threads give the results of separate fits, and restore the global state of torch."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.learn.network.torch_support import nn, torch
from crowdwise.truth.kernels.threads import use_threads
from tests.helpers.every_method import FEWEST, LEARNERS, TRUTH, crowd, fitted, outcome

SEEDS = (0, 1)


@pytest.fixture(scope="module")
def crowds():
    return [crowd(40, seed) for seed in SEEDS]


def together(work, cases):
    """Run the same function on several cases in threads that start together; return the results."""
    gate = threading.Barrier(len(cases))

    def one(case):
        gate.wait(60)
        return work(*case)

    with ThreadPoolExecutor(len(cases)) as pool:
        return list(pool.map(one, cases))


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.mark.parametrize("name", [*TRUTH, *LEARNERS])
def test_concurrent_fits_equal_separate_fits(name, crowds):
    def work(X, answers):
        with use_threads(2):  # kernels of both fits share a pool
            return outcome(fitted(name, X, answers, FEWEST), X)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cw.errors.CrowdwiseWarning)
        alone = [work(*case) for case in crowds]
        for found, expected in zip(together(work, crowds), alone, strict=True):
            assert_same(found, expected)


def own_network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))


def test_networks_that_use_the_generator_of_torch_take_turns(crowds):
    network = own_network()

    def work(X, answers):
        return outcome(cw.CrowdLayer(network=network, epochs=12, batch_size=8).fit(X, answers), X)

    alone = [work(*case) for case in crowds]
    state = torch.get_rng_state()
    for found, expected in zip(together(work, crowds), alone, strict=True):
        assert_same(found, expected)
    assert torch.equal(torch.get_rng_state(), state)


def test_concurrent_fits_restore_the_number_of_threads_of_torch(crowds):
    """A fit that starts while another has set it to one does not restore one."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    inside, seen = threading.Barrier(2), {}

    def work(X, answers):
        def wait(record):
            if record["epoch"] == 1 and threading.current_thread().name not in seen:
                seen[threading.current_thread().name] = True
                inside.wait(60)  # after the first epoch of both

        cw.CrowdLayer(epochs=9, lr=0.01).fit(X, answers, callback=wait)

    try:
        together(work, crowds)
        assert torch.get_num_threads() == 2
        assert together(lambda *_: torch.get_num_threads(), crowds) == [2, 2]  # new threads too
    finally:
        torch.set_num_threads(before)


def test_overlapping_one_thread_blocks_restore_the_number_of_threads():
    """The harmful order: A enters, B enters, A leaves, B leaves."""
    from crowdwise.learn.network.training import _OneThread

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        block, a_in, b_in, a_out = _OneThread(), *(threading.Event() for _ in range(3))

        def a():
            with block:
                a_in.set()
                b_in.wait(60)
            a_out.set()

        def b():
            a_in.wait(60)
            with block:
                b_in.set()
                a_out.wait(60)
                return torch.get_num_threads()

        with ThreadPoolExecutor(2) as pool:
            first, second = pool.submit(a), pool.submit(b)
            first.result()
            assert second.result() == 1
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_thread_can_enter_a_one_thread_block_again():
    """A enters, B enters, A leaves, B leaves, and A enters and leaves once more."""
    from crowdwise.learn.network.training import _OneThread

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        block = _OneThread()
        with ThreadPoolExecutor(1) as a, ThreadPoolExecutor(1) as b:
            for pool, step in ((a, "__enter__"), (b, "__enter__"), (a, "__exit__"), (b, "__exit__"), (a, "__enter__")):
                pool.submit(getattr(block, step)).result()
            a.submit(block.__exit__).result()
            assert [pool.submit(torch.get_num_threads).result() for pool in (a, b)] == [3, 3]
        with ThreadPoolExecutor(1) as fresh:
            assert fresh.submit(torch.get_num_threads).result() == 3
    finally:
        torch.set_num_threads(before)
