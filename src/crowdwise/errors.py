"""Errors by cause. Each message names the row or column at fault and what to do about it."""

from __future__ import annotations


class CrowdwiseError(ValueError):
    """Any mistake in what was given to crowdwise. Catch this to catch them all."""


class MissingColumnError(CrowdwiseError):
    """A column that is needed is not in the table, or several could be meant."""


class EmptyError(CrowdwiseError):
    """The table holds no answers."""


class NullError(CrowdwiseError):
    """A task, worker or label is missing in some row."""


class DuplicateError(CrowdwiseError):
    """A worker answered a task more than once."""


class UnknownIdError(CrowdwiseError):
    """A task, worker or class is not among those declared or seen in training."""


class TooManyClassesError(CrowdwiseError):
    """The label column has so many distinct values that it is probably not the label column."""


class IdTypeError(CrowdwiseError):
    """Ids that are not integers, strings or booleans, or that mix these."""


class FormatError(CrowdwiseError):
    """A file is not in the format it was read as, or the format cannot be told."""


class QuestionError(CrowdwiseError):
    """An export holds several questions and none was chosen."""


class TooLargeError(CrowdwiseError):
    """A dense table was asked for that would not fit in memory."""


class WeightError(CrowdwiseError):
    """A weight is negative, too large or not finite, or the method cannot use weights."""


class GoldError(CrowdwiseError):
    """Known labels are missing where a method needs them, or do not fit the answers."""


class FeaturesError(CrowdwiseError):
    """Features do not fit the answers, or hold values that are not finite."""


class ParameterError(CrowdwiseError):
    """A constructor argument is outside what the method allows."""


class SingleClassError(CrowdwiseError):
    """All answers name the same class: there is nothing to tell apart."""


class NotFittedError(CrowdwiseError, AttributeError):
    """A result was asked for before `fit`."""


class MissingDependencyError(CrowdwiseError, ImportError):
    """An optional library is needed for this call."""


class TrainingError(CrowdwiseError):
    """Training went astray: the loss is no number any more."""


class LostProcessError(TrainingError):
    """Training on many processes, of which another one has ended."""


class ModelFileError(CrowdwiseError):
    """A saved model is damaged, or was written by a newer crowdwise."""


class UnwritableError(CrowdwiseError, OSError):
    """A file or folder cannot be written: the disk is full, or it is not allowed."""


class BusyError(CrowdwiseError):
    """Another process is at work in the same folder."""


class SparkError(CrowdwiseError):
    """Spark could not be started, reached, or do what it was asked."""


class CrowdwiseWarning(UserWarning):
    """Any warning crowdwise gives."""


class LookalikeWarning(CrowdwiseWarning):
    """Ids that look the same on the screen, and are not."""


class ConvergenceWarning(CrowdwiseWarning):
    """EM stopped at `max_iter` before it converged."""


class WorseThanVoteWarning(CrowdwiseWarning):
    """Held-out answers do not support the model over majority vote."""


class ClassPriorWarning(CrowdwiseWarning):
    """The answers are much less likely under the declared class prior than without it."""

    headline = "the answers contradict the declared class_prior"  # the start of every message

    @classmethod
    def matches(cls, text: str) -> bool:
        """Whether a recorded message, as `Choice` keeps it, is one of this class."""
        return text.startswith(cls.headline)


class DivergenceWarning(CrowdwiseWarning):
    """An adversarial training went astray: its result is not to be trusted."""
