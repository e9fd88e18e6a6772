"""`hivectl up` on PostgreSQL as docs/postgresql.md says: a URL in the environment, a password in a file."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from shared.layout import PortPlan
from tests.support.hive import UP_SECONDS, Hive
from tests.support.ports import find_port_base
from tests.support.postgres import SUPERUSER, PostgresServer


def test_a_hive_keeps_everything_there_and_doctor_finds_it_in_order(postgres: PostgresServer) -> None:
    root = Path(tempfile.mkdtemp(prefix="hh-"))
    (root / "home").mkdir()
    password = root / "home" / "db-password"
    password.touch(0o600)
    password.write_text(f"{postgres.password}\n")
    database = postgres.create_database(template="template0")
    url = f"postgresql://{SUPERUSER}@127.0.0.1:{postgres.port}/{database}?password_file={password}"
    settings = {"HIVE_BROKER_DATABASE_URL": url}
    hive = Hive(root, PortPlan(find_port_base()))
    base = ("--port-base", str(hive.ports.base))
    try:
        first = hive.run("up", "--detach", "--agent", "iris", *base, within=UP_SECONDS, env=settings)
        assert first.returncode == 0, first.stderr
        hive.ctl("send", "iris", "kept in PostgreSQL")
        hive.down()
        again = hive.run("up", "--detach", within=UP_SECONDS, env=settings)
        assert again.returncode == 0, again.stderr
        assert [row["body"] for row in hive.ctl("agent", "inbox", "iris")] == ["kept in PostgreSQL"]
        assert hive.ctl("doctor")["ok"]
        assert not hive.layout.database.exists()
    finally:
        hive.close()
        postgres.drop_database(database)
        shutil.rmtree(root, ignore_errors=True)
