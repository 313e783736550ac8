"""One file per learner."""
