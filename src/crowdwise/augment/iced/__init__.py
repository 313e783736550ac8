"""ICED: truth inference and synthetic tasks of rare classes."""
