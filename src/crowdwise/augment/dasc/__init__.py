"""DASC: distribution-aware self-training."""
