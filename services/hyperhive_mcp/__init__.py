"""An agent's own daemon: the hyperhive surface."""
