"""What alembic runs: on the connection and inside the transaction that `runner` opened, nowhere else."""

from __future__ import annotations

from alembic import context

from services.broker.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
