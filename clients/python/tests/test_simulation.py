"""Two session cores on networks that delay, cut, repeat and swap, each from a seed."""

from __future__ import annotations

import os
from collections import Counter

from support.simulation import Simulation

SEEDS = int(os.environ.get("A11_SEEDS", "300"))
"""How many networks; the first is A11_SEED where that is set."""

FIRST = int(os.environ.get("A11_SEED", "0"))


def test_every_stream_is_exact_and_every_call_ends_once_on_any_network() -> None:
    happened: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = Simulation(seed)
        try:
            simulation.run()
        except BaseException as error:
            error.add_note(f"seed {seed}: A11_SEED={seed} A11_SEEDS=1 repeats it")
            raise
        for what in ("cuts", "repeats", "swaps", "gaps", "is_lost"):
            happened[what] += getattr(simulation, what)
        happened["displaced"] += sum(program.displaced for program in simulation.programs)
    if SEEDS >= 100:
        # The networks are no better than they should be.
        for what in ("cuts", "repeats", "swaps", "gaps", "displaced"):
            assert happened[what] > SEEDS // 2, happened
        assert happened["is_lost"] > SEEDS // 40, happened
