"""Suites, their runner, the statistics and the reports made from them."""

if __name__ != "voville_env.benchmarks":
    raise ImportError(
        f"imported as {__name__!r}: the import name of benchmarks/ is 'voville_env.benchmarks'"
    )
