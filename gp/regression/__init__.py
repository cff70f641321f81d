"""Processes as models of data: hyperparameters fitted or marginalised, and models compared; see `gp`."""
