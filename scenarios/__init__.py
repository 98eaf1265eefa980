"""The scenario, map and persona files that ship with the town; data only."""

if __name__ != "voville_env.scenarios":
    raise ImportError(
        f"imported as {__name__!r}: the import name of scenarios/ is 'voville_env.scenarios'"
    )
