"""`hivectl notices`: the group. Commands are loaded on use."""

from __future__ import annotations

from services.hivectl.command import HiveGroup, Lazy

_HERE = "services.hivectl.commands.notices"

notices = HiveGroup(
    name="notices",
    help="Follow what happens to agents: started, stopped, crashed and the rest; say who else may.",
    lazy={
        "tail": Lazy(f"{_HERE}.tail", "tail", "Print notices in order, without a gap."),
        "grant": Lazy(f"{_HERE}.grants", "grant", "Give a program a credential of its own to read them."),
        "readers": Lazy(f"{_HERE}.grants", "readers", "Who may read them."),
        "revoke": Lazy(f"{_HERE}.grants", "revoke", "End a reader's credential."),
    },
    examples=(
        ("hivectl notices tail", ""),
        ("hivectl notices tail --from-start --no-follow --json", ""),
        ("hivectl notices grant pager", ""),
    ),
)
