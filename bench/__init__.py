"""`make bench`: what mail, MCP calls and idle agents cost, mostly as ratios to a bare thing in the same run.

Absolute numbers depend on the machine; ratios within one run do not, much. Starts hives of its own, on free
ports and in temporary directories. docs/performance.md says what is compared with what.
"""
