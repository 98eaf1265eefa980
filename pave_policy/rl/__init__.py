"""Policies trained by reinforcement learning, played with NumPy alone."""
