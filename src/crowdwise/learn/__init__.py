"""Classifiers from features and answers."""
