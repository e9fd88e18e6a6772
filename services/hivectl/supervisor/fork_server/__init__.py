"""A process that has imported what every surface needs, and forks it: less memory, a quicker start.

`__main__` and `child` run in that process and in what it forks, `client` is the supervisor's side, `protocol`
what the two say. docs/adr/0015 says why it is built like this.
"""
