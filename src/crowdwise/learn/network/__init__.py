"""Networks: the training loop, batches, checkpoints, and the modules that learners build on."""
