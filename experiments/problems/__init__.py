"""Problems that experiments, tests and benchmarks share: data, log joints, integrands with known answers.

    data, regression_sets, simulated_regression   data sets, from packages or simulated from a seed
    pharmacokinetics      a model whose likelihood takes a millisecond a datum
    gradient_targets      log joints on which estimators of the gradient are compared
    evidence_targets      two evidences that brute force can compute
    integrands            integrands with known integrals
    unseen_integrands     more of them, on which no default was chosen
    known_posteriors      posteriors with known evidence and moments
    reference             ten reference posteriors, their data in a folder of the user's

Nothing in the libraries imports this package.
"""
