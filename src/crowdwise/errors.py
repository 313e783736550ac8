"""Exceptions and warnings, one class per cause. Each message names the row or column at fault and the remedy.

The docstring of a class says when it is raised. `--pseudonymise` shows it in place of a message that may name workers.
"""

from __future__ import annotations


class CrowdwiseError(ValueError):
    """Base class of all errors that crowdwise raises; catch it to catch them all."""


class MissingColumnError(CrowdwiseError):
    """A required column is missing from a table, or several columns could be it."""


class EmptyError(CrowdwiseError):
    """A table contains no answers."""


class NullError(CrowdwiseError):
    """A row has no task, worker or label."""


class DuplicateError(CrowdwiseError):
    """A worker answered a task more than once, or an id is listed twice."""


class UnknownIdError(CrowdwiseError):
    """A task, worker or class is not among those declared or seen in training."""


class TooManyClassesError(CrowdwiseError):
    """The label column has so many distinct values that it is probably not the label column."""


class AnswerKindError(CrowdwiseError):
    """The answers are not classes but numbers, lists of labels or free text."""


class IdTypeError(CrowdwiseError):
    """Ids are not integers, strings or booleans, or mix these types."""


class FormatError(CrowdwiseError):
    """A file is not in the format it was read as, or its format cannot be recognised."""


class QuestionError(CrowdwiseError):
    """An export contains several questions and none was selected."""


class TooLargeError(CrowdwiseError):
    """A dense table was requested that would not fit in memory."""


class WeightError(CrowdwiseError):
    """A weight is negative, too large or not finite, or the method does not support weights."""


class GoldError(CrowdwiseError):
    """A method needs gold labels and has none, or the gold labels do not match the answers."""


class FeaturesError(CrowdwiseError):
    """Features do not match the answers, or contain values that are not finite."""


class ParameterError(CrowdwiseError):
    """An argument is outside the range that is allowed."""


class SingleClassError(CrowdwiseError):
    """All answers name the same class, so that there is nothing to infer."""


class NotFittedError(CrowdwiseError, AttributeError):
    """A result is requested before `fit`."""


class MissingDependencyError(CrowdwiseError, ImportError):
    """An optional library is required but not installed."""


class TrainingError(CrowdwiseError):
    """Training diverges: the loss is not finite."""


class LostProcessError(TrainingError):
    """In distributed training, one of the other processes has exited."""


class ModelFileError(CrowdwiseError):
    """A saved model is damaged, or was written by a newer version of crowdwise."""


class UnwritableError(CrowdwiseError, OSError):
    """A file or folder cannot be written: the disk is full, or permission is denied."""


class BusyError(CrowdwiseError):
    """Another process is using the same folder or file."""


class SparkError(CrowdwiseError):
    """Spark cannot be started or reached, or a Spark job fails."""


class CrowdwiseWarning(UserWarning):
    """Base class of all warnings that crowdwise issues."""


class AnswerKindWarning(CrowdwiseWarning):
    """The labels look like a scale, but are treated as unordered classes."""


class TaskOrderWarning(CrowdwiseWarning):
    """Features without task ids may be in another order than the tasks."""


class LookalikeWarning(CrowdwiseWarning):
    """Distinct ids look the same on the screen."""


class ConvergenceWarning(CrowdwiseWarning):
    """EM stopped at `max_iter` before it converged."""


class ClassPriorWarning(CrowdwiseWarning):
    """The answers contradict the declared class prior."""


class DivergenceWarning(CrowdwiseWarning):
    """Adversarial training diverged and its result should not be used."""


class LabelsWarning(CrowdwiseWarning):
    """The labels of a learner agree with the answers less often than the vote does."""


class DominantWorkerWarning(CrowdwiseWarning):
    """The inferred labels repeat the answers of one worker, and the majority vote does not."""


class OneClassWarning(CrowdwiseWarning):
    """The inferred labels have drifted to one class."""


class DisconnectedWarning(CrowdwiseWarning):
    """Items fall into groups that no comparison links."""
