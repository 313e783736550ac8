"""Compiled loops that the truth methods share."""
