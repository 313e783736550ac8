"""The methods and experiments of each paper."""
