"""One file an experiment: what is compared, on what data, how it is drawn.

    harness      what runs, stores, draws and reports every experiment
    problems     data, log joints and integrands that experiments, tests and benchmarks share
    short        small forms of four studies, for a first report
    thesis, models, minibatch, gradients, quadrature, vbmc, gp   the experiments, by theme
    catalogue    the experiments by name

An experiment is a grid, cases x seeds. `harness.runner` computes its cells, each into a file of its own
(`harness.store`), in any order; an interrupted command can be repeated. `harness.results` reads the cells
back into one table. `harness.report` passes that table to the experiment's ``draw`` and ``tables`` and makes
a page of the results. An experiment (`harness.experiment.Experiment`) therefore consists of a few functions,
a title and a summary. In this package ``__all__`` has the experiment, and its functions start with an
underscore unless another module uses them. A new one is a file and a line in
`catalogue`, or a user's own module, as `harness.registry` describes; the how-to page "Bring my own
experiment" has one.
"""
