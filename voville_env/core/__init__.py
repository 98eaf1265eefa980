"""The simulation core: codes, fields, rule tables and compiled kernels."""
