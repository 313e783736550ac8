"""Maintenance scripts: generated files, licences, the lowest supported versions."""
