"""The generative agent after Park et al.: memory stream, retrieval, reflection, plans, reaction."""
