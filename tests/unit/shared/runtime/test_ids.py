"""ULIDs."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from pydantic import TypeAdapter

from shared.runtime.ids import new_ulid
from shared.wire.messages import BootId


def test_ids_have_the_shape_the_wire_asks_for() -> None:
    assert TypeAdapter(BootId).validate_python(new_ulid())


def test_ids_begin_with_the_time() -> None:
    before = time.time_ns() // 1_000_000
    text = new_ulid()

    number = 0
    for character in text[:10]:
        number = number * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(character)
    assert before <= number <= time.time_ns() // 1_000_000


def test_ids_grow_also_within_a_millisecond() -> None:
    made = [new_ulid() for _ in range(5000)]

    assert made == sorted(set(made))


def test_threads_never_get_the_same() -> None:
    gate = threading.Barrier(4)

    def make(_: int) -> list[str]:
        gate.wait(5)
        return [new_ulid() for _ in range(1000)]

    with ThreadPoolExecutor(4) as pool:
        made = [one for batch in pool.map(make, range(4)) for one in batch]

    assert len(set(made)) == 4000


def test_forked_children_do_not_count_on_from_the_same_number() -> None:
    new_ulid()

    def of_a_child() -> str:
        reader, writer = os.pipe()
        if (child := os.fork()) == 0:
            os.write(writer, new_ulid().encode())
            os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        with open(reader, "rb") as file:  # noqa: PTH123
            return file.read().decode()

    made = {of_a_child()[10:] for _ in range(3)} | {new_ulid()[10:]}
    assert len({text[:8] for text in made}) == 4
