"""Parts that every room uses and that know nothing about answers: validation, the registry, files, processes."""
