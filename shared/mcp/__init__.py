"""The MCP host: one lowlevel server a surface, both protocol eras, no session state."""
