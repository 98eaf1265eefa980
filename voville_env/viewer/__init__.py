"""Pictures of runs. They need matplotlib, the extra `figures`; the rest of the package does not."""
