"""The base class of crowd-kit's aggregators of classes."""

from crowdwise.compat.crowdkit._frames import Aggregator as BaseClassificationAggregator

__all__ = ["BaseClassificationAggregator"]
