"""Speed and memory, measured side by side in one process and on one thread.

``python -m benchmarks`` runs all of them, ``python -m benchmarks NAME ...`` some. Absolute times drift on a
shared machine, so the candidates of a comparison take turns and what is quoted is the median of the
ratios, round by round.
"""
