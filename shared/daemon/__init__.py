"""What all daemons of an agent have in common: the control link, the grants, reports, todos for the agent."""
