"""Of all tests: what lies here (`every_method`, `edge_crowds`) can be imported by them, and nothing is timed."""

from hypothesis import settings

settings.register_profile("whatever it takes", deadline=None)  # on a busy machine, a slow case is no fault
settings.load_profile("whatever it takes")
