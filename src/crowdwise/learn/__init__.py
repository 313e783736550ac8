"""Classifiers learned from features and answers."""
