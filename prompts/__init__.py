"""The prompt templates that ship with the policies, one per operation; data only."""

if __name__ != "pave_policy.prompts":
    raise ImportError(
        f"imported as {__name__!r}: the import name of prompts/ is 'pave_policy.prompts'"
    )
