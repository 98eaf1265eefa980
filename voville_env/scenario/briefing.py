"""What policies are told of a scenario before a run."""

from __future__ import annotations

from voville_env.policy import Briefing, PersonaCard, PersonalRule
from voville_env.scenario.load import World
from voville_env.scenario.variation import vary


def make_briefing(world: World, seed: int) -> Briefing:
    """Makes what policies are told.

    Args:
        world: The scenario.
        seed: The episode's seed.

    Returns:
        The briefing.
    """
    world = vary(world, seed)
    rules = tuple(
        PersonalRule(rule=name, content=name.replace("_", " ").lower(), **entry)
        for name, entry in world.rules.items()
    )
    cards = {}
    for plan, persona in zip(world.scenario.agents, world.personas, strict=True):
        late = any(errand.late for errand in plan.schedule)
        goal = plan.goal or (
            "Reach an important meeting, 15 minutes late" if late else persona.goal
        )
        cards[persona.id] = PersonaCard(
            id=persona.id,
            name=persona.name,
            occupation=persona.occupation,
            disposition=persona.disposition,
            goal=goal,
            group=persona.group,
            legitimacy_threshold=persona.legitimacy_threshold,
            rules=rules,
            schedule=tuple(
                f"day {errand.day}, tick {errand.tick}: {errand.goal}" for errand in plan.schedule
            ),
        )
    return Briefing(
        town=world.town,
        personas=cards,
        seed=seed,
        scenario=world.scenario.name,
        steps_per_tick=world.scenario.clock.steps_per_tick,
        ticks_per_day=world.scenario.clock.ticks_per_day,
    )
