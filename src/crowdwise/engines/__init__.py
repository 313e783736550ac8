"""The same truth inference where the answers are too many for one machine: `crowdwise.engines.spark`."""

from crowdwise.engines import spark as spark
