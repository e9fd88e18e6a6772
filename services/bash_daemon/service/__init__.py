"""What the bash surface decides: which command with which surroundings, and what an answer says."""
