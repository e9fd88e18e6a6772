"""The supervisor of `hivectl up`: parent of NATS, the broker and all surfaces, and the `process` driver.

It holds the listening sockets and restarts what dies. It decides nothing that outlives it: what should run is
the broker's to know, and what happened is in the spool until the broker has it.
"""
