"""Turns a half-visible installation into one clear error.

Four folders of the repository have import names inside `voville_env` and `pave_policy`, which only
an installation knows. In a clone, the working directory's `voville_env` hides an installed one, and
those folders are then nowhere to be found.
"""

import importlib.util
from pathlib import Path

_WITNESS = "voville_env.scenarios"


def check() -> None:
    """Makes sure that the folders mapped into this package can be found.

    Finds without importing, so the check costs a few file look-ups.

    Raises:
        ImportError: `voville_env` was taken from a source tree that is not installed as editable.
    """
    if importlib.util.find_spec(_WITNESS) is not None:
        return
    package = Path(__file__).resolve().parent
    raise ImportError(
        f"voville_env was imported from {str(package)!r}, where {_WITNESS!r} cannot be found. "
        f"The source tree {str(package.parent)!r} comes first on the import path and hides the "
        "installed package, and its folders 'wrappers', 'scenarios' and 'benchmarks' have their "
        "import names only in an installation. Either run from another directory, or install the "
        "tree with `pip install -e .` (without `editable_mode=compat`, which drops the mapping).",
        name=_WITNESS,
    )
