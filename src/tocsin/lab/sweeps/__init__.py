"""Sweeps: the points of a plan, computed on Spark and kept."""
