"""Exceptions and warnings, one class per cause. Each message names the row or column at fault and the remedy."""

from __future__ import annotations


class CrowdwiseError(ValueError):
    """Base class of all errors that crowdwise raises; catch it to catch them all."""


class MissingColumnError(CrowdwiseError):
    """Raised when a required column is missing from a table, or several columns could be it."""


class EmptyError(CrowdwiseError):
    """Raised when a table contains no answers."""


class NullError(CrowdwiseError):
    """Raised when a row has no task, worker or label."""


class DuplicateError(CrowdwiseError):
    """Raised when a worker answered a task more than once, or an id is listed twice."""


class UnknownIdError(CrowdwiseError):
    """Raised when a task, worker or class is not among those declared or seen in training."""


class TooManyClassesError(CrowdwiseError):
    """Raised when the label column has so many distinct values that it is probably not the label column."""


class IdTypeError(CrowdwiseError):
    """Raised when ids are not integers, strings or booleans, or mix these types."""


class FormatError(CrowdwiseError):
    """Raised when a file is not in the expected format, or its format cannot be recognised."""


class QuestionError(CrowdwiseError):
    """Raised when an export contains several questions and none was selected."""


class TooLargeError(CrowdwiseError):
    """Raised when a dense table was requested that would not fit in memory."""


class WeightError(CrowdwiseError):
    """Raised when a weight is negative, too large or not finite, or the method does not support weights."""


class GoldError(CrowdwiseError):
    """Raised when a method needs gold labels and has none, or the gold labels do not match the answers."""


class FeaturesError(CrowdwiseError):
    """Raised when features do not match the answers, or contain values that are not finite."""


class ParameterError(CrowdwiseError):
    """Raised when an argument is outside the range that is allowed."""


class SingleClassError(CrowdwiseError):
    """Raised when all answers name the same class, so that there is nothing to infer."""


class NotFittedError(CrowdwiseError, AttributeError):
    """Raised when a result is requested before `fit`."""


class MissingDependencyError(CrowdwiseError, ImportError):
    """Raised when an optional library is required but not installed."""


class TrainingError(CrowdwiseError):
    """Raised when training diverges: the loss is not finite."""


class LostProcessError(TrainingError):
    """Raised in distributed training when one of the other processes has exited."""


class ModelFileError(CrowdwiseError):
    """Raised when a saved model is damaged, or was written by a newer version of crowdwise."""


class UnwritableError(CrowdwiseError, OSError):
    """Raised when a file or folder cannot be written: the disk is full, or permission is denied."""


class BusyError(CrowdwiseError):
    """Raised when another process is using the same folder or file."""


class SparkError(CrowdwiseError):
    """Raised when Spark cannot be started or reached, or a Spark job fails."""


class CrowdwiseWarning(UserWarning):
    """Base class of all warnings that crowdwise issues."""


class LookalikeWarning(CrowdwiseWarning):
    """Issued when distinct ids look the same on the screen."""


class ConvergenceWarning(CrowdwiseWarning):
    """Issued when EM stopped at `max_iter` before it converged."""


class ClassPriorWarning(CrowdwiseWarning):
    """Issued when held-out answers contradict the declared class prior."""


class DivergenceWarning(CrowdwiseWarning):
    """Issued when adversarial training diverged and its result should not be used."""
