"""One file per truth method."""
