"""Frameworks that fill in what is missing: answers nobody gave, tasks of rare classes."""
