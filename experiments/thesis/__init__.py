"""The figures of the thesis: methods of variational inference on a mixture of Gaussians."""
