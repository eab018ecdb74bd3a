"""Stories of derived sources of each kind: late events, kills, recomputes of some hours and resets, in any order. After each
step, every hour that is not stale is compared with loops over all that was sent.
"""

import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

from batch_layer.plan import plan
from speed_layer.reset import DerivedReset
from tests.support.derived_shop import ALWAYS_EXACT, DERIVED, Shop
from tests.support.speed_process import SpeedProcess

# Each kind has tests of its own in CI.
pytestmark = [pytest.mark.heavy, pytest.mark.long]


@pytest.mark.parametrize("seed", [1])
def test_each_derived_source_is_exact_after_each_step(kafka: str, tmp_path: Path, seed: int) -> None:
    shop = Shop(tmp_path, kafka, f"story{seed}")
    shop.trade(15)
    shop.sent.drain()
    shop.check(ALWAYS_EXACT)
    shop.trade(15)
    shop.close()
    shop.sent.drain()
    shop.check()
    steps = ["late", "kill", "recompute", "late", "reset", "recompute", "kill"]
    shop.random.shuffle(steps)
    for step in steps:
        take_step(shop, step)
        shop.check()
    shop.sent.recompute()
    assert shop.check() <= {"final", "empty"}
    for arguments in (["verify"], ["verify", "--recount"]):
        shop.sent.command(*arguments)


def take_step(shop: Shop, step: str) -> None:
    chosen = shop.random
    if step == "recompute":
        planned = plan(shop.sent.project)
        shop.sent.recompute(chosen.sample(planned, len(planned) // 2))
        return
    if step == "reset":
        source = shop.sent.project.sources[chosen.choice(DERIVED)]
        DerivedReset(shop.sent.project, source).apply(datetime.now(UTC))
    else:
        shop.trade(6)
    if step == "kill":
        place = f"{chosen.choice(['before', 'after'])} append {chosen.choice(['events', 'progress'])}"
        with SpeedProcess(shop.sent, "--drain", failpoint=f"kill {place} {chosen.randrange(1, 5)}") as process:
            assert process.wait() == -signal.SIGKILL, process.lines
    shop.sent.drain()
