"""Speed and memory, measured side by side in one process, on one thread or with the machine's defaults.

``python -m benchmarks`` runs all of them, ``python -m benchmarks NAME ...`` some; with ``--default-threads``
seconds are wall time, and the number of threads is not limited. Absolute times vary on a shared machine, so
that the candidates of a comparison take turns and the median of the ratios of the rounds is reported.
"""
