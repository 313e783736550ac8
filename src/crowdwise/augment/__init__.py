"""Frameworks that add missing answers, or synthetic tasks of rare classes."""
