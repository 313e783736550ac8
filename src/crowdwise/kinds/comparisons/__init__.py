"""Comparisons: which of two items is better. `base` is what their methods share, `methods/` has a file per method."""
