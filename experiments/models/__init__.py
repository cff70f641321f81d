"""Inference in other models and on real data."""
