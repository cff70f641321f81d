"""Bounds on the evidence by sampling."""
