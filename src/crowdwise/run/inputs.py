"""What a run works on: read, checked, and with the known truth set apart."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.errors import EmptyError, ParameterError, SingleClassError
from crowdwise.io import read
from crowdwise.io.reader import attach_truth
from crowdwise.learn.features import Features, open_features
from crowdwise.run.media import open_images

Array = np.ndarray[Any, np.dtype[Any]]


class RunInput(NamedTuple):
    """What a run works on, checked."""

    answers: Answers  # without truth
    known: Array | None  # (tasks,) codes of the truth, -1 unknown; those from n_classes on name classes nobody chose
    names: list[Any]  # of the classes, with those that only the truth names
    X: Features | None
    images: Any
    texts: Sequence[str | None] | Array | None
    seconds: Array | None  # (answers,)
    notes: list[str]  # what was left out on the way in

    def parts(self) -> dict[str, Any]:
        """What the result depends on, by name."""
        texts = None if self.texts is None else list(self.texts)
        return {
            "answers": self.answers,
            "features": self.X,
            "truth": self.known,
            "texts": texts,
            "seconds": self.seconds,
            "images": self.images,
        }


def check_inputs(
    answers: Any, features: Any, images: Any, texts: Any, encode: bool, seconds: Any, truth: Any
) -> RunInput:
    """Read and check what was given."""
    if isinstance(answers, (str, os.PathLike)):
        answers = read(answers)
    if not isinstance(answers, Answers):
        message = f"run takes Answers or a path, not {type(answers).__name__}: use crowdwise.Answers.from_frame(...)."
        raise ParameterError(message)
    if answers.n_answers == 0:
        message = "there are no answers."
        raise EmptyError(message)
    if answers.n_classes < 2:
        message = f"all answers say {answers.classes.tolist()[0]!r}: there is nothing to tell apart."
        raise SingleClassError(message)
    if isinstance(truth, (str, os.PathLike)):
        told = attach_truth(answers, truth)
    else:
        told = answers if truth is None else answers.with_truth(truth, ignore_unknown=True)
    known = None if told.truth is None or not (told.truth >= 0).any() else told.truth
    names = told.classes.tolist()
    if texts is not None:
        require(len(texts) == answers.n_tasks, "texts", f"{len(texts)} texts", f"{answers.n_tasks}, one a task")
    if seconds is not None:
        seconds = np.asarray(seconds, dtype=float)
        fits = seconds.shape == (answers.n_answers,)
        require(fits, "seconds", f"array of shape {seconds.shape}", f"{answers.n_answers} numbers, one an answer")
    pictures = None if images is None else open_images(images, answers)
    answers = replace(answers, truth=None)
    X = _features(features, pictures, texts, answers) if encode or features is not None else None
    notes = [f"Left out: {count:,} {why}." for why, count in told.removed.items()]
    return RunInput(answers, known, names, X, pictures, texts, seconds, notes)


def _features(features: Any, images: Any, texts: Any, answers: Answers) -> Features | None:
    """Features that were given, or what a pretrained network makes of images or texts."""
    if features is None and images is not None:
        from crowdwise.learn.features.encoders import encode_images

        features = encode_images(images)
    elif features is None and texts is not None:
        from crowdwise.learn.features.encoders import encode_texts

        features = encode_texts(["" if text is None else text for text in texts])
    return None if features is None else open_features(features, answers)
