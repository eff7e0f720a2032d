"""A scripted OpenAI-compatible endpoint on loopback: a policy decides what each request is answered with.

It sees the bytes that a user's endpoint would see, and misbehaves as real ones do. A policy gets the request's
body and its number, and returns a `Say` (or a text for a plain answer).
"""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True)
class Say:
    """One answer. `raw` is sent as the body as it is; `drop` closes the socket, before an answer or, streamed,
    after `drop` pieces."""

    text: str | None = ""
    finish_reason: str | None = "stop"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: str | None = None
    drop: int | None = None
    usage: bool = True
    delay_s: float = 0.0
    error: dict[str, Any] | None = None


Policy = Callable[[Body, int], Say | str]


def number_of(body: Body) -> int:
    """Which candidate the request is for."""
    found = re.search(r"\(Candidate (\d+)\.\)\s*$", body["messages"][-1]["content"])
    assert found is not None
    return int(found[1])


class Endpoint:
    """`requests` holds every body, `seen` path and headers with it."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.requests: list[Body] = []
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                outer.answer(self)

            def log_message(self, format: str, *arguments: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        with self.lock:
            number = len(self.requests)
            self.requests.append(body)
            self.seen.append((handler.path, dict(handler.headers)))
        said = self.policy(body, number)
        say = Say(said) if isinstance(said, str) else said
        time.sleep(say.delay_s)
        if say.drop is not None and not body.get("stream"):
            _cut(handler)
        elif say.status != 200:
            error = say.error or {"message": f"scripted {say.status}", "type": "scripted"}
            _send(handler, say, json.dumps({"error": error}))
        elif body.get("stream"):
            _stream(handler, say, body)
        else:
            _send(handler, say, say.raw if say.raw is not None else json.dumps(_completion(say, body)))


def _completion(say: Say, body: Body) -> Body:
    message = {"role": "assistant", "content": say.text}
    reply: Body = {
        "id": "scripted",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": say.finish_reason}],
    }
    if say.usage:
        reply["usage"] = _usage(say)
    return reply


def _usage(say: Say) -> dict[str, int]:
    completion = len(say.text or "") // 4
    return {"prompt_tokens": 100, "completion_tokens": completion, "total_tokens": 100 + completion}


def _send(handler: BaseHTTPRequestHandler, say: Say, text: str) -> None:
    data = text.encode()
    handler.send_response(say.status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(data)))
    for name, value in say.headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)


def _stream(handler: BaseHTTPRequestHandler, say: Say, body: Body) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Connection", "close")
    handler.close_connection = True
    handler.end_headers()
    base = {"id": "scripted", "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
    text = say.text or ""
    pieces = [text[start : start + 7] for start in range(0, len(text), 7)]
    for index, piece in enumerate(pieces):
        if say.drop is not None and index == say.drop:
            _cut(handler)
            return
        delta = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
        _event(handler, {**base, "choices": [delta]})
    if say.raw is not None:
        handler.wfile.write(f"data: {say.raw}\n\n".encode())
    last = {"index": 0, "delta": {}, "finish_reason": say.finish_reason}
    _event(handler, {**base, "choices": [last]})
    if say.usage:
        _event(handler, {**base, "choices": [], "usage": _usage(say)})
    handler.wfile.write(b"data: [DONE]\n\n")


def _event(handler: BaseHTTPRequestHandler, chunk: Body) -> None:
    handler.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
    handler.wfile.flush()


def _cut(handler: BaseHTTPRequestHandler) -> None:
    """Reset the connection."""
    handler.close_connection = True
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def serving(policy: Policy) -> Iterator[Endpoint]:
    endpoint = Endpoint(policy)
    thread = threading.Thread(target=endpoint.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.server.shutdown()
        endpoint.server.server_close()
        thread.join()
