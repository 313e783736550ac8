"""Rank tasks by ambiguity, and learn without the most ambiguous ones."""
