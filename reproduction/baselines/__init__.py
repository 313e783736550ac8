"""Baselines that only the papers need."""
