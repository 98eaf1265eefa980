"""Pedestrian signals: a fixed cycle of walk and don't-walk per intersection."""

from voville_env.core.codes import EventCode, SignalState
from voville_env.core.compile import kernel
from voville_env.core.kernels.log import emit

_WALK = int(SignalState.WALK)
_DONT_WALK = int(SignalState.DONT_WALK)
_SIGNAL = int(EventCode.SIGNAL)


@kernel
def wait_at(state, signal, ahead):
    """Red ticks left at a signal if one arrives some ticks ahead; 0 while it shows walk."""
    green = state.signal_green[signal]
    cycle = green + state.signal_red[signal]
    phase = state.signal_phase[signal] + ahead
    if phase >= cycle:
        phase %= cycle
    return 0 if phase < green else cycle - phase


@kernel
def update(town, config, state, events):
    """Sets what each signal shows in this tick."""
    for k in range(town.n_signals):
        green = state.signal_green[k]
        cycle = green + state.signal_red[k]
        phase = (state.tick - state.signal_start[k]) % cycle
        state.signal_phase[k] = phase
        shows = _WALK if phase < green else _DONT_WALK
        state.signal_change[k] = (green if phase < green else cycle) - phase
        if shows != state.signal_state[k]:
            state.signal_state[k] = shows
            emit(config, state, events, _SIGNAL, -1, k, shows, 0, 0, 0, 0)
