"""`python -m shared.tasks.supervisor FD`: the spawner, on a seqpacket socket that a daemon left at FD."""

from __future__ import annotations

import socket
import sys

from shared.tasks.supervisor.spawner import Spawner

if __name__ == "__main__":
    Spawner(socket.socket(fileno=int(sys.argv[1]))).serve()
