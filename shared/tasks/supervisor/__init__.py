"""The small process that each task has: it outlives the daemon, holds the limits, and writes the true end.

`spawner` is forked from once a task, so that starting one costs no start of an interpreter. Standard library
only, one thread, blocking calls and one `poll` loop. Nothing here reads a database or knows MCP.
"""
