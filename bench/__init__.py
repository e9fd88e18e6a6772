"""`make bench`: what mail and MCP calls cost, as ratios to a bare endpoint of the same process.

Absolute numbers depend on the machine; ratios within one run do not, much. Starts a hive of its own.
"""
