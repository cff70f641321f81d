'''One file an experiment: what is compared, on what data, how it is drawn.

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
underscore unless another module uses them. A new one is a file such as the following and a line in
`catalogue`, or a user's own module, as `harness.registry` describes:

    """How fast the error of the mean of n draws falls."""

    import numpy as np
    import pandas as pd

    from experiments.harness import drawing
    from experiments.harness.experiment import Case, Drawing, Experiment

    def cases(quick, resources):
        return [Case(f"sd {sd}", {"sd": sd, "n": 20 if quick else 500}) for sd in (1, 2)]

    def run(case, seed):
        draws = np.random.default_rng(seed).normal(0, case.settings["sd"], case.settings["n"])
        n = np.arange(1, draws.size + 1)
        return pd.DataFrame({"samples": n, "error": np.abs(draws.cumsum() / n)})

    def draw(results):
        figure, axes = drawing.figure()
        drawing.curves(axes[0, 0], results, "samples", "error", x_scale="log", y_scale="log")
        drawing.legend_below(figure, axes)
        return [Drawing("error", figure, f"Error of the mean. {drawing.band_caption(results)}")]

    experiment = Experiment("means", "Means", "How fast does the error fall?", cases=cases, run=run,
    draw=draw)
'''
