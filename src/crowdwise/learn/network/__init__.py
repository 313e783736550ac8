"""Networks: the training loop, batches, checkpoints, and the modules that learners are built from."""
