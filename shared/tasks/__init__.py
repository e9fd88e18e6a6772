"""The background-task engine."""
