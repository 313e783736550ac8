"""Same results as peerannot, on few answers per task, where its products do not underflow."""

import json
from pathlib import Path

import numpy as np
import pytest

import crowdwise as cw

EXPECTED = json.loads(Path(__file__).with_name("peerannot.json").read_text())


@pytest.fixture
def answers():
    return cw.Answers.from_arrays(*zip(*EXPECTED["answers"], strict=True))


def test_naive_soft(answers):
    np.testing.assert_allclose(cw.NaiveSoft().fit(answers).proba_, EXPECTED["naive_soft"])


def test_dawid_skene(answers):
    model = cw.DawidSkene(prior=None, max_iter=12, tol=0).fit(answers)
    np.testing.assert_allclose(model.proba_, EXPECTED["dawid_skene"], atol=1e-7)
    np.testing.assert_allclose(model.confusion_, EXPECTED["confusion"], atol=1e-7)


def test_wawa_and_iwmv(answers):
    scores = np.sort(EXPECTED["wawa_scores"], axis=1)
    clear = scores[:, -1] - scores[:, -2] > 1e-9  # both break ties at random
    assert clear.sum() > 15
    np.testing.assert_array_equal(cw.Wawa().fit(answers).labels_[clear], np.array(EXPECTED["wawa"])[clear])
    assert (cw.IWMV().fit(answers).labels_ == EXPECTED["iwmv"]).mean() > 0.9  # peerannot weights by accuracy only


def test_two_third(answers):
    model = cw.TwoThird().fit(answers)
    np.testing.assert_array_equal(np.where(model.decided_, model.labels_, -1), EXPECTED["two_third"])
