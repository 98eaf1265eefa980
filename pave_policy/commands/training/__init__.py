"""Training of reinforcement-learning comparators; needs the extra `rl`."""
