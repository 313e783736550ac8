"""Answers that are not one class: a package per kind, each with its methods and metrics."""
