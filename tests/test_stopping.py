"""SIGTERM, against a real server: what is under way is answered, nothing new is taken, and the wait is bounded."""

from __future__ import annotations

import time

import pytest

from kernel_env.server import backend

from .conftest import Launch
from .serving import STOP_S, scripted

SLOW = scripted(sleep=1.5)


def test_a_step_under_way_is_answered_and_nothing_new_is_taken(launch: Launch) -> None:
    server = launch(scripted=True)
    with server.connect() as playing, server.connect() as other:
        playing.reset()
        other.reset()
        playing.send("step", {"code": SLOW})
        server.wait_for(5.0, running=1)
        server.process.terminate()
        server.wait_for(5.0, state="stopping")
        assert server.get("/ready").status_code == 503
        assert other.refused("step", {"code": SLOW}) == "SERVER_STARTING"
        assert other.refused("reset", {}) == "SERVER_STARTING"
        assert playing.receive()["data"]["observation"]["stage"] == "passed"
        assert playing.closed() == 1012
    server.process.wait(STOP_S)
    assert "stopping: 1 evaluations under way" in server.stderr.read_text()


@pytest.mark.slow
def test_a_step_that_takes_too_long_does_not_keep_the_server(launch: Launch) -> None:
    server = launch(scripted=True)
    with server.connect() as playing:
        playing.reset()
        playing.send("step", {"code": scripted(sleep=60.0)})
        server.wait_for(5.0, running=1)
        begun = time.monotonic()
        server.process.terminate()
        server.process.wait(STOP_S)
    assert backend.DRAIN_S <= time.monotonic() - begun < backend.DRAIN_S + 5.0
