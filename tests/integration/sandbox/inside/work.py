"""What a task is there for."""

from __future__ import annotations

import os
import pwd
import socket
import ssl
import struct
import subprocess
import urllib.request
from pathlib import Path

from tests.integration.sandbox.inside.trying import attempt, connect, fact, own, read


@attempt
def use_state() -> object:
    place = Path(own("notes"))
    place.mkdir()
    (place / "a").write_text("x")
    (place / "a").rename(own("moved"))
    return os.listdir(fact("state"))


@attempt
def use_temporary() -> object:
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x")
        return file.name


@attempt
def run_own_program() -> object:
    program = Path(own("program"))
    program.write_text("#!/bin/sh\necho works\n")
    program.chmod(0o700)
    return subprocess.run([program], check=True, capture_output=True).stdout


@attempt
def read_added() -> object:
    return read(f"{fact('added_readable')}/file")


@attempt
def write_added_readable() -> object:
    return Path(fact("added_readable"), "planted").write_text("x")


@attempt
def write_added() -> object:
    return Path(fact("added_writable"), "made").write_text("x")


@attempt
def write_beside_protected() -> object:
    return Path(fact("operator_home"), "project", "made").write_text("x")


@attempt
def reach_loopback() -> object:
    return urllib.request.urlopen(fact("url"), timeout=5).read()


@attempt
def connect_agent_socket() -> object:
    return connect(fact("agent_socket"))


@attempt
def connect_core_socket() -> object:
    return connect(fact("core_socket"))


@attempt
def serve_own_socket() -> object:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(own("sock"))
        server.listen()
        client.connect(own("sock"))
        return True


@attempt
def pipe_programs() -> object:
    done = subprocess.run(["sh", "-c", "seq 100 | grep 7 | wc -l"], check=True, capture_output=True)
    return struct.pack("i", int(done.stdout))


@attempt
def run_python() -> object:
    return subprocess.run(["python3", "-c", "import json, ssl"], check=True)


@attempt
def run_git() -> object:
    place = own("repository")
    environment = {**os.environ, "HOME": fact("state"), "GIT_CONFIG_NOSYSTEM": "1"}
    author = ["-c", "user.name=a", "-c", "user.email=a@example.invalid"]
    for words in (["init", "-q", place], ["-C", place, *author, "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", *words], check=True, env=environment)
    return True


@attempt
def use_shared_memory() -> object:
    import multiprocessing

    with multiprocessing.Lock():
        return Path("/dev/shm/own").write_text("x")


@attempt
def open_terminal() -> object:
    return os.openpty()


@attempt
def use_devices() -> object:
    Path("/dev/null").write_text("x")
    return read_some("/dev/urandom") + read_some("/dev/zero")


def read_some(device: str) -> bytes:
    with open(device, "rb", buffering=0) as file:
        return file.read(4)


@attempt
def write_to_standard_error_by_name() -> object:
    return subprocess.run(["sh", "-c", "echo x > /dev/stderr"], check=True, stderr=subprocess.PIPE).stderr


@attempt
def know_own_name() -> object:
    return pwd.getpwuid(os.getuid()).pw_name, socket.getaddrinfo("localhost", 80)


@attempt
def know_resolver() -> object:
    return read("/etc/resolv.conf")


@attempt
def trust_authorities() -> object:
    authorities = ssl.create_default_context().cert_store_stats()["x509_ca"]
    if not authorities and os.path.exists("/etc/ssl/certs/ca-certificates.crt"):
        raise FileNotFoundError("certificates")
    return authorities
