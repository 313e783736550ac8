"""Settings of all tests: shared fixtures, and repeatable generated examples without a time limit."""

from hypothesis import settings

pytest_plugins = ["tests.helpers.spark_fixtures"]

# A slow example on a busy machine is not a failure. The same code gets the same examples, so no run fails by chance.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
