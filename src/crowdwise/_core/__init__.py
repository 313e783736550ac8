"""Utilities shared by every package, independent of answers: validation, the registry, files, processes, display."""
