"""Simulated crowds of the papers."""
