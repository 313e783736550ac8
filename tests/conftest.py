"""Settings of all tests: shared fixtures, and no time limit for generated examples."""

from hypothesis import settings

pytest_plugins = ["tests.helpers.spark_fixtures"]

settings.register_profile("no deadline", deadline=None)  # a slow example on a busy machine is not a failure
settings.load_profile("no deadline")
