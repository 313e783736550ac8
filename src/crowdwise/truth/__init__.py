"""Labels from answers alone: one file a method."""
