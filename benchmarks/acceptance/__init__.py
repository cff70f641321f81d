"""A comparison of the package with an earlier state: all front doors on problems with known answers.

    python -m benchmarks acceptance [--quick] [--doors NAME ...] [--seed-base B] [--out FILE]
                                    [--table [FILE]] [--write-reference]

Each task of `tasks` is run on several seeds, each run in a process of its own (`meter`). Five figures are
measured for each run, and a sixth for the posteriors of VBMC:

    error        against the known truth, in units that the task states
    within       1 where the error is at most twice the standard deviation that was reported, else 0; for
                 tasks with many such comparisons the share of them
    evaluations  points at which the user's function was called, records and diagnostics included
    overhead     CPU time beyond the user's function, ms for each unit of work (`meter.STANDARD`)
    memory       growth of the resident set during the call, MiB
    distance     mean marginal total variation between the posterior found and the exact one

The figures of a run are compared with those that `reference.json` stores, seed by seed, by the test of
`comparison`; figures that have changed by more than seed noise are flagged as better or worse.
"""
