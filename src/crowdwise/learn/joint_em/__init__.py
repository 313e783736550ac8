"""JointEM: a classifier and the workers' confusion matrices, fitted together by EM."""
