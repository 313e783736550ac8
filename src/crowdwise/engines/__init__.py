"""The same truth inference where the answers are too many for one machine; see `crowdwise.engines.spark`."""
