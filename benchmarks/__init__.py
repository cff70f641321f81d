"""Speed and memory, measured side by side in one process, on one thread or with the machine's defaults.

``python -m benchmarks`` runs all of them, ``python -m benchmarks NAME ...`` some; with
``--default-threads`` seconds are of the wall, and the number of threads is not limited. Absolute times drift
on a shared machine, so the candidates of a comparison take turns and what is quoted is the median of the
ratios, round by round.
"""
