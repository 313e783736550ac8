"""Labels from answers alone: one file per method."""
