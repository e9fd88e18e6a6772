"""`make bench`: what mail and MCP calls cost, as ratios to a bare endpoint of the same process."""
