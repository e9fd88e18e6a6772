"""An index of the words in messages. It is empty at first: the broker fills it while it runs, in batches."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from shared.errors import Misconfigured

revision = "r0014"
down_revision = "r0013"
branch_labels = None
depends_on = None

# Without the sizes of columns, which only ranking needs.
_FTS5 = """
CREATE VIRTUAL TABLE message_words USING fts5(
    body, content='messages', content_rowid='id', columnsize=0, tokenize='unicode61 remove_diacritics 2'
)
"""
# To take out what was never put in would damage it.
_FTS5_REMOVAL = """
CREATE TRIGGER message_words_removal AFTER DELETE ON messages
WHEN old.id <= (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'searched_up_to')
BEGIN
    INSERT INTO message_words (message_words, rowid, body) VALUES ('delete', old.id, old.body);
END
"""
_TSVECTOR = """
CREATE TABLE message_words (
    message_id bigint PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
    words tsvector NOT NULL
)
"""
_TSVECTOR_INDEX = "CREATE INDEX ix_message_words_words ON message_words USING gin (words)"


def upgrade() -> None:
    """Make it, with the mark of how far it is."""
    op.execute("INSERT INTO meta (key, value) VALUES ('searched_up_to', '0')")
    if op.get_bind().dialect.name == "sqlite":
        _require_fts5()
        statements = (_FTS5, _FTS5_REMOVAL)
    else:
        statements = (_TSVECTOR, _TSVECTOR_INDEX)
    for statement in statements:
        op.execute(statement)


def _require_fts5() -> None:
    modules = sa.text("SELECT count(*) FROM pragma_module_list WHERE name = 'fts5'")
    if not op.get_bind().scalar(modules):
        raise Misconfigured(
            "this Python's SQLite was built without FTS5, which finds messages by their words: "
            "use another Python, or PostgreSQL"
        )
