"""Speed, scale, accuracy and reliability, measured: `python -m benchmarks` lists what there is.

Run from the root of the repository. Figures are stored in benchmarks/results and summarised in docs/benchmarks.md and
docs/reliability.md.
"""
