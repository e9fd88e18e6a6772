"""A scripted Messages API on loopback: plays steps to a real CLI and records what the model was shown.

Threads and the standard library only, so that it serves sync and async tests alike. It speaks the part of the
API that the CLI uses (streaming and plain messages, count_tokens, HEAD /); it judges nothing by itself.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.support.script import Fail, JsonObject, ModelRequest, Reply, Say, Step, classify

HOLD_SECONDS = 120.0
SUMMARY = "<summary>Everything that matters was said.</summary>"


class ScriptedModel:
    """The model behind one or several CLI processes; use as a context manager.

    Main requests take the next step each, side requests (compaction, nested agents, count_tokens) none, and a
    byte-identical retry of an answered request gets the same answer again.
    """

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self._steps: list[Step] = list(steps)
        self._requests: list[ModelRequest] = []
        self._failures: list[BaseException] = []
        self._taken: dict[str, tuple[int, Step]] = {}
        self._played = 0
        self._changed = threading.Condition()
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        if value is None:
            self.check()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self) -> list[ModelRequest]:
        """All requests so far, side requests included."""
        with self._changed:
            return list(self._requests)

    @property
    def main_requests(self) -> list[ModelRequest]:
        return [request for request in self.requests if request.kind == "main"]

    def extend(self, *steps: Step) -> None:
        """Append steps, also while a session runs."""
        with self._changed:
            self._steps.extend(steps)

    def wait_for_main(self, count: int, *, within: float = 30) -> ModelRequest:
        """Block until that many main requests have come; answers the last of them.

        Raises:
            TimeoutError: saying how many came.
        """
        with self._changed:

            def main() -> list[ModelRequest]:
                return [request for request in self._requests if request.kind == "main"]

            if not self._changed.wait_for(lambda: len(main()) >= count, within):
                raise TimeoutError(f"{len(main())} of {count} main requests came within {within} s")
            return main()[count - 1]

    def check(self) -> None:
        """Fail when the script was not played exactly to its end.

        Raises:
            AssertionError: naming what is left, or what went wrong inside a step.
        """
        with self._changed:
            for failure in self._failures:
                raise AssertionError(f"a step of the script failed: {failure!r}") from failure
            left = self._steps[self._played :]
            if left:
                raise AssertionError(f"{len(left)} steps were not played: {left}")

    def answer(self, path: str, headers: dict[str, str], raw: bytes) -> tuple[ModelRequest, Reply]:
        """Record a request and find its reply. Called by the HTTP handler, in its thread."""
        body = json.loads(raw or b"{}")
        request = ModelRequest(classify(path, headers, body), path, headers, body)
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()
        if request.kind == "agent":
            return request, Say("done").reply(request, 0)
        if request.kind == "compaction":
            return request, Say(SUMMARY).reply(request, 0)
        return request, self._play(request, hashlib.sha256(raw).hexdigest())

    def _play(self, request: ModelRequest, digest: str) -> Reply:
        if request.kind != "main":
            return Reply()
        taken = self._take(digest)
        if taken is None:
            return self._fail(request, AssertionError("the model was asked more often than the script says"))
        number, step = taken
        if step.until is not None and not step.until.wait(HOLD_SECONDS):
            return self._fail(request, TimeoutError(f"step {number} was held back for {HOLD_SECONDS} s"))
        try:
            reply = step.reply(request, number)
        except Exception as exc:  # noqa: BLE001 - the step is the test's code; its failure must reach the test
            return self._fail(request, exc)
        if reply.status != 200:
            with self._changed:
                del self._taken[digest]  # the retry after an error is a new request
        return reply

    def _take(self, digest: str) -> tuple[int, Step] | None:
        """The step of this request: the next one, or its own when the same bytes come again."""
        with self._changed:
            if digest not in self._taken and self._played < len(self._steps):
                self._played += 1
                self._taken[digest] = (self._played, self._steps[self._played - 1])
            return self._taken.get(digest)

    def _fail(self, request: ModelRequest, exc: Exception) -> Reply:
        with self._changed:
            self._failures.append(exc)
        return Fail(400, f"script error: {exc}").reply(request, 0)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Joining handler threads would wait for the CLI's idle keep-alive connections.
    block_on_close = False

    def __init__(self, model: ScriptedModel) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = model

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away (a killed CLI) is no event worth a trace."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Tests read `requests`; stderr stays quiet."""

    def do_HEAD(self) -> None:
        self._send(200, b"", "text/plain")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        headers = {name.lower(): value for name, value in self.headers.items()}
        request, reply = self.server.model.answer(path, headers, raw)
        if request.kind == "count_tokens":
            self._send_json(200, {"input_tokens": max(1, len(raw) // 4)})
        elif request.kind == "other":
            self._send_json(404, _error("not_found_error", f"no such path {path}"))
        elif reply.status != 200:
            self._send_json(reply.status, _error(reply.error_type, reply.message), reply.headers)
        elif request.body.get("stream"):
            frames = (f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in stream_events(request, reply))
            self._send(200, "".join(frames).encode(), "text/event-stream")
        else:
            self._send_json(200, _message(request, reply, list(reply.blocks), reply.stop_reason))

    def _send_json(self, status: int, value: JsonObject, headers: Any = None) -> None:
        self._send(status, json.dumps(value).encode(), "application/json", headers)

    def _send(self, status: int, data: bytes, content_type: str, headers: Any = None) -> None:
        self.send_response(status)
        for name, value in {
            "content-type": content_type,
            "content-length": str(len(data)),
            "request-id": f"req_{len(self.server.model.requests)}",
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def stream_events(request: ModelRequest, reply: Reply) -> Iterator[JsonObject]:
    """The server-sent events of a streamed message. Source: Messages API, streaming."""
    yield {"type": "message_start", "message": _message(request, reply, [], None)}
    for index, block in enumerate(reply.blocks):
        if block["type"] == "tool_use":
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            start = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reply.stop_reason, "stop_sequence": None},
        "usage": {"output_tokens": 20},
    }
    yield {"type": "message_stop"}


def _message(
    request: ModelRequest, reply: Reply, blocks: list[JsonObject], stop_reason: str | None
) -> JsonObject:
    usage = {"input_tokens": reply.input_tokens, "output_tokens": 20}
    return {
        "id": f"msg_{abs(hash(json.dumps(request.messages))):024d}",
        "type": "message",
        "role": "assistant",
        "model": request.body.get("model", "claude-test"),
        "content": blocks,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {**usage, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
    }


def _error(kind: str, message: str) -> JsonObject:
    return {"type": "error", "error": {"type": kind, "message": message}}
