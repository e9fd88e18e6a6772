"""Two brokers on one database: a task is ended from whichever the operator asks."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.integration.broker.running import BOOTS
from tests.integration.postgresql.conftest import Pair
from tests.integration.postgresql.test_streams import see_units

pytestmark = [pytest.mark.database("postgresql"), pytest.mark.requirement("tasks.kill")]


async def test_a_kill_asked_for_at_one_reaches_the_surface_at_the_other(pair: Pair) -> None:
    iris = pair.at_b("iris")
    answers: list[Any] = []

    async def ask() -> None:
        answers.append(await pair.a.operator.get("POST", "/agents/iris/tasks/k3v9x2mq/kill"))

    async with pair.b.connect(iris, unit="bash") as stream:
        await stream.next_grants()
        await see_units(pair.a, "bash")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            task = await stream.next_kill()
            report = {"unit": "bash", "boot": BOOTS[0], "kills": [{"id": task, "outcome": "killing"}]}
            await iris.get("POST", "/reports", report)
    assert (answers[0]["delivered"], answers[0]["outcome"]) == (True, "killing")
