"""One file an experiment: what is compared, on what data, how it is drawn.

An experiment is a grid, cases x seeds. `runner` computes its cells, each into a file of its own
(`store`), in any order, in any number of sittings; `results` reads the cells back into one table;
`report` hands that table to the experiment's `draw` and `tables` and makes a page of what they
return. An experiment (`experiment.Experiment`) is therefore four functions and some words, and a
new one is a new file and a line in `registry`.
"""
