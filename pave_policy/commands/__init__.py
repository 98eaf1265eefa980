"""Command-line commands that show what a policy asks of a model, and what it answered."""
