"""Acting on words: a model's action list read as deeds, and the deeds step by step (C-74)."""
