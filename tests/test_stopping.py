"""SIGTERM, against a real server: what is under way is answered, and nothing new is taken."""

from __future__ import annotations

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
