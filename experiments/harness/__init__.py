"""The programs that run every experiment: records, grid, files, claims, figures, report, command line.

    experiment   the records: Case, Experiment, Drawing, Table, Resources
    registry     an experiment by its name
    runner       the grid of cases and seeds; execution: its cells anywhere; store, provenance: its files
    results      the runs read back as one table; bands, evidence, claims: curves, statistics and verdicts
    statements   a table of statements as claims
    drawing, animation, comparison, summaries   figures and tables of the same form in many experiments
    report       the page; cli: `bqvi list`, `bqvi run`, `bqvi report`

No module of this package computes a result, so that results remain valid when it changes (`provenance`).
"""
