"""Compiled kernels, one file a rule family; `step.py` is the order of a step."""
