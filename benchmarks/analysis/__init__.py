"""What a finished run shows beyond its metrics: the gate, officers, recovery, failure modes.

Each section is made from the logs alone: typed records, a table, CSV rows and a figure.
"""
