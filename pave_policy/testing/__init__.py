"""A stub model server and scripted replies, for tests of anything that calls a model.

`with StubServer(answer) as server:` listens at `server.url`; `answer` is made by the functions
here, or is a function of one's own. `python -m pave_policy.testing` runs one as a process.
"""

from pave_policy.testing.canned import canned
from pave_policy.testing.exchange import (
    OPERATIONS,
    Answerer,
    StubReply,
    StubRequest,
    error_body,
    vectors_body,
)
from pave_policy.testing.faults import ERRORS
from pave_policy.testing.replies import (
    always,
    by_operation,
    flaky,
    rate_limited,
    refuses_parameter,
    requires_key,
    script,
    values,
)
from pave_policy.testing.stub import StubServer

__all__ = [
    "ERRORS",
    "OPERATIONS",
    "Answerer",
    "StubReply",
    "StubRequest",
    "StubServer",
    "always",
    "by_operation",
    "canned",
    "error_body",
    "flaky",
    "rate_limited",
    "refuses_parameter",
    "requires_key",
    "script",
    "values",
    "vectors_body",
]
