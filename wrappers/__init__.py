"""Adapters that offer the town to other libraries, one file per library."""

if __name__ != "voville_env.wrappers":
    raise ImportError(
        f"imported as {__name__!r}: the import name of wrappers/ is 'voville_env.wrappers'"
    )
