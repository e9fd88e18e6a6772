"""Background tasks: processes that outlive the daemon that started them, and whose true end is never lost.

`engine` is what a daemon uses. `supervisor` is the small process that each task has; `output` keeps and shows
what a task writes. Knows no surface: bash uses it now, subagents later.
"""
