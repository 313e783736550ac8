"""Images of tasks are opened and checked."""

import numpy as np
import pytest
from PIL import Image

import crowdwise as cw
from crowdwise.errors import FeaturesError
from crowdwise.run.inputs import open_images
from crowdwise.run.tables.tasks import pixels


@pytest.fixture
def answers():
    return cw.Answers.from_arrays([0, 1, 2], ["a"] * 3, ["x", "y", "x"])


def test_every_kind_of_image_becomes_bytes(tmp_path, answers):
    for shape in ((3, 4, 5), (3, 4, 5, 1), (3, 4, 5, 3), (3, 4, 5, 4)):
        image = pixels(open_images(np.random.default_rng(0).random(shape), answers), 0)
        assert image.dtype == np.uint8 and image.shape in ((4, 5), (4, 5, 3))
    for number in range(3):
        Image.fromarray(np.full((9, 9, 3), 40 * number, np.uint8)).save(tmp_path / f"{number}.png")
    assert pixels(open_images(tmp_path, answers), 2).tolist() == np.full((9, 9, 3), 80).tolist()


def test_images_of_wrong_number_or_shape_are_rejected(answers):
    with pytest.raises(FeaturesError, match="2 images for 3 tasks"):
        open_images(np.zeros((2, 4, 4)), answers)
    with pytest.raises(FeaturesError, match="height"):
        open_images(np.zeros((3, 4)), answers)
