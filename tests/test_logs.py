"""The log on stderr as JSON lines: of a server, and of what a call adds."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys

from kernel_env.server.logs import JsonLines

from .serving import PLAIN


def test_a_servers_lines_are_json() -> None:
    settings = {"KERNEL_ENV_EVALUATOR": "mock", "KERNEL_ENV_PORT": "0", "KERNEL_ENV_LOG": "json"}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KERNEL")}
    server = subprocess.Popen(
        [sys.executable, *PLAIN], env={**clean, **settings}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert server.stderr is not None
    try:
        told = json.loads(server.stderr.readline())
        assert told["message"].startswith("serving on http://127.0.0.1:")
        assert (told["level"], told["logger"]) == ("info", "kernel_env.server")
        assert told["time"].endswith("+00:00")
    finally:
        server.terminate()
        rest = server.communicate(timeout=30.0)[1]
    assert all(json.loads(line) for line in rest.splitlines())


def test_what_a_call_adds_is_a_field_and_an_exception_is_told() -> None:
    try:
        raise ValueError("a\nb")
    except ValueError:
        error = sys.exc_info()
    record = logging.makeLogRecord(
        {
            "name": "a",
            "levelname": "ERROR",
            "msg": "step %d",
            "args": (2,),
            "evaluation_id": "7",
            "exc_info": error,
        }
    )
    line = JsonLines().format(record)
    told = json.loads(line)
    assert "\n" not in line
    assert (told["message"], told["evaluation_id"]) == ("step 2", "7")
    assert "ValueError: a" in told["error"]
    assert "args" not in told
