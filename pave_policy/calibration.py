"""Every number and choice of the surrogate, each with its source."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Any

from pave_policy.constants import Source
from voville_env.errors import InvalidValueError, invalid


class RiskModel(StrEnum):
    """How risk falls with the distance to an officer (requirement C-15)."""

    EXPONENTIAL = "exponential"
    BANDS = "bands"


class PeerEstimator(StrEnum):
    """How a share is estimated from a few people: rule of succession, or as counted (C-40)."""

    SUCCESSION = "succession"
    RAW = "raw"


Curve = tuple[tuple[int, int], ...]
_D2_CURVE = "ours: exponential through the distances and risks of D.2"
_BALANCE = "ours: directions from C.3; no printed value constrains it"


@dataclass(frozen=True)
class SurrogateSettings:
    """Every number that the surrogate uses, with its source; `fitted` marks those fitted.

    Attributes:
        risk_model: Whether risk falls exponentially with the distance, or in bands.
        risk_amplitude: Risk at distance 0 before the cap.
        risk_length: Tiles over which risk falls by a factor of e.
        risk_cap: Largest risk from distance alone.
        risk_bands: `(tiles, risk)`: the risk up to so many tiles, with bands.
        risk_beyond: Risk farther away than the bands reach.
        risk_alone: Risk with no officer in sight.
        risk_after_pass: Factor once the officer in sight has let the person pass.
        risk_under_order: Least risk while an order to hold or to turn back is in force.
        risk_veto: Risk from which on an open gate still leads to complying; 0 for none.
        p_emp_estimator: How the share of the people observed is estimated.
        legitimacy_curve: `(tiles, legitimacy)` by distance to a fire, straight lines in between.
        legitimacy_far: Legitimacy under a fire farther away than the curve reaches.
        legitimacy_late: Legitimacy under time pressure.
        legitimacy_calm: Legitimacy otherwise.
        legitimacy_cap: Most that it can be where a violation is needless or out of proportion.
        norm_descriptive: Taken off for a rule that only says what people do.
        norm_hazard: Taken off while a hazard is perceived.
        norm_unknown: Normative expectation for a rule that the person does not hold.
        benefit_calm: Benefit in routine conditions.
        benefit_late: Benefit under time pressure.
        benefit_hazard: Least benefit under a hazard; its severity where that is more.
        weight_norm: Weight of the normative expectation against the benefit.
        weight_peers: Weight of the peers' conduct against the benefit.
        slip_rate: Percentage of verdicts that come out as the opposite of what follows from the
            scores, drawn from the seed: what the gate in code is there for.
    """

    risk_model: Annotated[RiskModel, Source("ours: the bands alone miss D.2 (C-15)")] = (
        RiskModel.EXPONENTIAL
    )
    risk_amplitude: Annotated[float, Source(_D2_CURVE)] = 106.0
    risk_length: Annotated[float, Source(_D2_CURVE)] = 10.7
    risk_cap: Annotated[int, Source("C.2: upper end of the nearest band")] = 95
    risk_bands: Annotated[Curve, Source("C.2: middle of each band")] = ((3, 82), (10, 45))
    risk_beyond: Annotated[int, Source("C.2: middle of the farthest band")] = 18
    risk_alone: Annotated[int, Source("C.2: in the band without authority, 5 to 15")] = 13
    risk_after_pass: Annotated[float, Source("ours: D.2 after the officer waves on")] = 2 / 3
    risk_under_order: Annotated[int, Source("D.2: risk under the order to hold")] = 88
    risk_veto: Annotated[int, Source("ours: D.2 complies at 73 and does not at 60")] = 65
    p_emp_estimator: Annotated[PeerEstimator, Source("ours: D.3 prints 75 for two of two")] = (
        PeerEstimator.SUCCESSION
    )
    legitimacy_curve: Annotated[Curve, Source("C.2 at the fire, then D.1", fitted=True)] = (
        (0, 92),
        (2, 91),
        (3, 90),
        (8, 81),
        (12, 68),
        (15, 42),
        (18, 24),
    )
    legitimacy_far: Annotated[int, Source("C.2: example of a distant fire", fitted=True)] = 18
    legitimacy_late: Annotated[int, Source("D.3 and C.2: rows under haste", fitted=True)] = 13
    legitimacy_calm: Annotated[int, Source("D.1 and C.5: rows without a threat", fitted=True)] = 8
    legitimacy_cap: Annotated[int, Source("C.2: upper end of the convenience band")] = 30
    norm_descriptive: Annotated[int, Source("ours: C.2 puts injunctive entries higher")] = 15
    norm_hazard: Annotated[int, Source("ours: others make allowances in a hazard")] = 20
    norm_unknown: Annotated[int, Source("ours: no entry, no information")] = 50
    benefit_calm: Annotated[int, Source("C.2: in the routine band, 5 to 20")] = 12
    benefit_late: Annotated[int, Source("ours: above routine, below a hazard")] = 40
    benefit_hazard: Annotated[int, Source("ours: necessity outweighs a personal rule")] = 60
    weight_norm: Annotated[float, Source(_BALANCE)] = 0.5
    weight_peers: Annotated[float, Source(_BALANCE)] = 0.5
    slip_rate: Annotated[int, Source("ours: no slips unless asked for")] = 0

    def __post_init__(self) -> None:
        """Checks what can be switched; a member of a closed set may be given by its name.

        Raises:
            InvalidValueError: If a value is not allowed.
        """
        kinds: dict[str, type[StrEnum]] = {
            "risk_model": RiskModel,
            "p_emp_estimator": PeerEstimator,
        }
        for name, kind in kinds.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in list(kind):
                raise invalid(name, value, [mode.value for mode in kind])
            object.__setattr__(self, name, kind(value))
        if type(self.risk_veto) is not int or not 0 <= self.risk_veto <= 100:
            raise InvalidValueError(
                f"risk_veto is {self.risk_veto!r}; allowed: whole numbers from 1 to 100, 0 for none"
            )
        if type(self.slip_rate) is not int or not 0 <= self.slip_rate <= 50:
            raise InvalidValueError(
                f"slip_rate is {self.slip_rate!r}; allowed: whole numbers from 0 to 50, in per cent"
            )

    def described(self) -> dict[str, Any]:
        """The constants as they identify a backbone.

        Returns:
            JSON-ready values.
        """
        curves = {"legitimacy_curve": self.legitimacy_curve, "risk_bands": self.risk_bands}
        return asdict(self) | {
            "risk_model": self.risk_model.value,
            "p_emp_estimator": self.p_emp_estimator.value,
            **{name: [list(point) for point in curve] for name, curve in curves.items()},
        }
