"""Flat vectors of whole batches: every number of a record is looked up in a table of floats."""

import numpy as np

from voville_env.core.compile import kernel

OCTET = 0
WORD = 1
DIFFERENCE = 2
"""Kinds of numbers: a byte, an int16, or one int16 less another."""
KIND = np.uint64(0)
SOURCE = np.uint64(1)
MINUS = np.uint64(2)
LAST = np.uint64(3)
START = np.uint64(4)
WIDTH = np.uint64(5)
"""Columns of a plan."""
WIDE = 12
"""Floats copied for every number that becomes more than two: a fixed count is quicker, and those
too many are overwritten by the numbers after it."""

_ONE = np.uint64(1)
_WIDE = np.uint64(WIDE)


# Unsigned positions spare Numba the test for negative ones, which doubles the speed.
@kernel(entry=True)
def flatten_rows(octets, words, plan, lows, tables, out):
    """Writes the vector of each record: `octets` and `words` are the records as bytes and int16."""
    for i in range(np.uint64(out.shape[0])):
        place = np.uint64(0)
        for k in range(np.uint64(plan.shape[0])):
            kind = plan[k, KIND]
            source = np.uint64(plan[k, SOURCE])
            if kind == OCTET:
                number = np.int64(octets[i, source])
            else:
                number = np.int64(words[i, source])
                if kind == DIFFERENCE:
                    number -= np.int64(words[i, np.uint64(plan[k, MINUS])])
            number = min(max(number - lows[k], np.int64(0)), np.int64(plan[k, LAST]))
            width = np.uint64(plan[k, WIDTH])
            start = np.uint64(plan[k, START]) + np.uint64(number) * width
            if width <= 2:
                out[i, place] = tables[start]
                if width == 2:
                    out[i, place + _ONE] = tables[start + _ONE]
            else:
                for j in range(_WIDE):
                    out[i, place + np.uint64(j)] = tables[start + np.uint64(j)]
            place += width
