"""The operator's command line, and the supervisor behind hivectl up."""
