"""Which tasks are ambiguous, and what to do about them."""
