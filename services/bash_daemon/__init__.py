"""The bash surface: background shell tasks of one agent."""
