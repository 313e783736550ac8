"""Ratings: levels of a scale, or numbers. `base` is what their methods share, `methods/` has a file per method."""
