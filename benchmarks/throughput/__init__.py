"""What `voville throughput` measures: steps a second, shares of a step, limits, start-up, peers."""
