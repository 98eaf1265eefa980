"""The event buffer: fixed size, drained every tick, overflow counted."""

from voville_env.core.compile import kernel
from voville_env.core.layout import EVENTS


@kernel
def emit(config, state, events, code, agent, a, b, c, d, e, f):
    """Appends one record, or counts it as lost where the buffer is full."""
    if config.with_events == 0:
        return
    n = state.event_count
    if n >= EVENTS:
        state.event_lost += 1
        return
    record = events[n]
    record.tick = state.tick
    record.step = state.step
    record.code = code
    record.agent = agent
    record.a = a
    record.b = b
    record.c = c
    record.d = d
    record.e = e
    record.f = f
    state.event_count = n + 1
