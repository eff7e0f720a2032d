"""Sessions: capacity, dropped connections, resumption, and results that are given exactly once."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest
from websockets.asyncio.client import connect

from .conftest import Launch
from .serving import CODE, Server, Wire, scripted

SLOW = scripted(sleep=20.0)


@pytest.fixture(scope="module")
def server(launch: Launch) -> Server:
    return launch(scripted=True, KERNEL_ENV_MAX_SESSIONS="3")


@pytest.fixture(autouse=True)
def _idle(server: Server) -> None:
    server.wait_for(5.0, active_sessions=0, running=0)


def begin(wire: Wire, **data: object) -> str:
    """Reset; the token that resumes the episode."""
    token: str = wire.reset(**data)["metadata"]["session"]
    return token


def test_the_session_over_the_limit_is_refused(server: Server) -> None:
    wires = [server.connect() for _ in range(3)]
    over = server.connect()
    frame = over.receive()
    assert frame["type"] == "error"
    assert (frame["data"]["code"], frame["data"]["active_sessions"], frame["data"]["max_sessions"]) == (
        "CAPACITY_REACHED",
        3,
        3,
    )
    assert "Server at capacity: 3/3" in frame["data"]["message"]
    assert "KERNEL_ENV_MAX_SESSIONS" in frame["data"]["message"]
    assert over.closed() == 1000
    over.close()
    wires.pop().close()
    server.wait_for(5.0, active_sessions=2)
    with server.connect() as wire:
        wire.reset()
    for wire in wires:
        wire.close()


@pytest.mark.parametrize("how", ["cut", "close"])
def test_a_disconnect_in_mid_step_frees_everything_soon(server: Server, how: str) -> None:
    before = server.counts()
    wire = server.connect()
    wire.reset()
    wire.send("step", {"code": SLOW})
    server.wait_for(5.0, running=1)
    gone = time.monotonic()
    getattr(wire, how)()
    server.wait_for(5.0, active_sessions=0, running=0)
    assert time.monotonic() - gone < 5.0
    after = server.counts()
    assert (after["cancelled"] - before["cancelled"], after["finished"] - before["finished"]) == (1, 0)


def test_other_sessions_go_on_while_a_step_runs(server: Server) -> None:
    with server.connect() as slow, server.connect() as quick:
        slow.reset()
        slow.send("step", {"code": SLOW})
        server.wait_for(5.0, running=1)
        quick.reset()
        begun = time.monotonic()
        quick.step(CODE)
        server.health()
        assert time.monotonic() - begun < 5.0
        slow.cut()


def test_a_dropped_episode_goes_on_where_it_was(server: Server) -> None:
    with server.connect() as first:
        token = begin(first, episode_id="kept", task_id="level1/e02_SiLU")
        first.step(scripted(speedup=2.0))
        first.cut()
    server.wait_for(5.0, active_sessions=0)
    with server.connect(resume=token) as second:
        state = second.state()
        assert (state["episode_id"], state["turn"], state["step_count"]) == ("kept", 1, 1)
        step = second.step(CODE)["observation"]
        assert (step["turn"], step["task_id"]) == (2, "level1/e02_SiLU")
        assert step["best_speedup"] >= 2.0


def test_a_step_cancelled_by_a_drop_is_evaluated_when_sent_again(server: Server) -> None:
    before = server.counts()
    with server.connect() as first:
        token = begin(first)
        first.send("step", {"code": SLOW, "metadata": {"request_id": "a"}})
        server.wait_for(5.0, running=1)
        first.cut()
    server.wait_for(5.0, running=0)
    with server.connect(resume=token) as second:
        assert second.state()["step_count"] == 0
        step = second.step(CODE, request_id="a")
        assert (step["observation"]["turn"], step["metadata"]["request_id"]) == (1, "a")
        assert second.state()["step_count"] == 1
    after = server.counts()
    assert after["started"] - before["started"] == 2


def test_a_lost_reply_is_given_again_without_a_second_evaluation(server: Server) -> None:
    with server.connect() as first:
        token = begin(first)
        answer = first.ask("step", {"code": CODE, "metadata": {"request_id": "a"}})
        first.cut()
    before = server.counts()
    server.wait_for(5.0, active_sessions=0)
    with server.connect(resume=token) as second:
        for _ in range(2):
            assert second.ask("step", {"code": CODE, "metadata": {"request_id": "a"}}) == answer
        assert second.state()["turn"] == 1
        assert server.counts() == before
        assert second.refused("step", {"code": "x = 1", "metadata": {"request_id": "a"}}) == "VALIDATION_ERROR"
        assert second.step(CODE, request_id="b")["observation"]["turn"] == 2


def test_the_reply_to_the_last_step_of_an_episode_is_kept_after_a_drop(server: Server) -> None:
    with server.connect() as first:
        token = begin(first)
        for number in range(4):
            answer = first.ask("step", {"code": CODE, "metadata": {"request_id": str(number)}})
        first.cut()
    assert answer["data"]["done"] is True
    server.wait_for(5.0, active_sessions=0)
    with server.connect(resume=token) as second:
        assert second.ask("step", {"code": CODE, "metadata": {"request_id": "3"}}) == answer
        assert second.refused("step", {"code": CODE, "metadata": {"request_id": "4"}}) == "EPISODE_DONE"


def test_a_live_session_is_taken_over_and_its_running_step_awaited(server: Server) -> None:
    before = server.counts()
    code = scripted(sleep=1.0)
    with server.connect() as old:
        token = begin(old)
        old.send("step", {"code": code, "metadata": {"request_id": "a"}})
        server.wait_for(5.0, running=1)
        with server.connect(resume=token) as new:
            step = new.step(code, request_id="a")
            assert step["observation"]["turn"] == 1
            assert old.closed() == 1008
            assert server.health()["active_sessions"] == 1
            assert new.state()["step_count"] == 1
            assert new.step(CODE, request_id="b")["observation"]["turn"] == 2
    after = server.counts()
    assert (after["started"] - before["started"], after["cancelled"] - before["cancelled"]) == (2, 0)


def test_after_a_takeover_another_step_waits_for_the_running_one(server: Server) -> None:
    with server.connect() as old:
        token = begin(old)
        old.send("step", {"code": scripted(sleep=0.7), "metadata": {"request_id": "a"}})
        server.wait_for(5.0, running=1)
        with server.connect(resume=token) as new:
            assert new.step(CODE, request_id="b")["observation"]["turn"] == 2


def test_after_a_takeover_a_reset_ends_the_running_step(server: Server) -> None:
    before = server.counts()
    with server.connect() as old:
        token = begin(old)
        old.send("step", {"code": SLOW, "metadata": {"request_id": "a"}})
        server.wait_for(5.0, running=1)
        with server.connect(resume=token) as new:
            new.reset(episode_id="next")
            assert (new.state()["episode_id"], new.state()["step_count"]) == ("next", 0)
    assert server.counts()["cancelled"] - before["cancelled"] == 1


def test_an_unknown_token_is_told_once_that_the_episode_is_lost(server: Server) -> None:
    with server.connect(resume="unknown") as wire:
        assert wire.refused("step", {"code": CODE}) == "EPISODE_LOST"
        assert wire.refused("step", {"code": CODE}) == "NOT_RESET"
        assert wire.state()["step_count"] == 0
        wire.reset()
        assert wire.step(CODE)["observation"]["turn"] == 1
    with server.connect(resume="unknown") as wire:
        assert wire.refused("state") == "EPISODE_LOST"
    with server.connect(resume="unknown") as wire:
        wire.reset()
        assert wire.state()["turn"] == 0


def test_a_closed_episode_cannot_be_resumed(server: Server) -> None:
    with server.connect() as wire:
        token = begin(wire)
        wire.send("close")
        assert wire.closed() == 1000
    with server.connect(resume=token) as wire:
        assert wire.refused("step", {"code": CODE}) == "EPISODE_LOST"


def test_parked_episodes_expire(launch: Launch) -> None:
    server = launch(KERNEL_ENV_RESUME_S="1.0")
    with server.connect() as wire:
        token = begin(wire)
        wire.cut()
    server.wait_for(5.0, parked_sessions=1, active_sessions=0)
    server.wait_for(5.0, parked_sessions=0)
    with server.connect(resume=token) as wire:
        assert wire.refused("step", {"code": CODE}) == "EPISODE_LOST"
    server.stop()


def test_parked_episodes_take_no_place(server: Server) -> None:
    tokens = []
    for _ in range(5):
        with server.connect() as wire:
            tokens.append(begin(wire))
            wire.cut()
        server.wait_for(5.0, active_sessions=0)
    wires = [server.connect(resume=token) for token in tokens[:3]]
    assert server.health()["active_sessions"] == 3
    with server.connect(resume=tokens[3]) as refused:
        assert refused.receive()["data"]["code"] == "CAPACITY_REACHED"
    wires.pop().close()
    server.wait_for(5.0, active_sessions=2)
    with server.connect(resume=tokens[3]) as wire:
        assert wire.state()["turn"] == 0
    for wire in wires:
        wire.close()


def test_a_forgotten_session_makes_room_when_others_wait(launch: Launch) -> None:
    server = launch(scripted=True, KERNEL_ENV_MAX_SESSIONS="2", KERNEL_ENV_IDLE_S="3")
    with server.connect() as forgotten, server.connect() as busy:
        token = begin(forgotten)
        begin(busy)
        forgotten.step(CODE)
        busy.send("step", {"code": scripted(sleep=6.0)})
        with server.connect() as early:
            assert early.receive()["data"]["code"] == "CAPACITY_REACHED"
        time.sleep(3.1)
        with server.connect() as newcomer:
            newcomer.reset()
            assert forgotten.closed() == 1008
            with server.connect() as late:
                assert late.receive()["data"]["code"] == "CAPACITY_REACHED"
        assert busy.receive()["data"]["observation"]["turn"] == 1
        with server.connect(resume=token) as back:
            assert back.state()["turn"] == 1
    server.stop()


def test_a_flood_of_requests_ends_the_connection_and_nothing_else(server: Server) -> None:
    with server.connect() as flooding, server.connect() as other:
        token = begin(flooding)
        begin(other)
        flooding.send("step", {"code": SLOW})
        for _ in range(40):
            flooding.send("state")
        assert flooding.closed() == 1008
        assert other.step(CODE)["observation"]["turn"] == 1
        with server.connect(resume=token) as back:
            assert back.state()["turn"] == 0


def test_sixty_four_sessions_at_once_all_finish(launch: Launch) -> None:
    server = launch()

    async def play(number: int) -> list[float]:
        url = server.url.replace("http", "ws", 1) + "/ws"
        async with connect(url, proxy=None, open_timeout=60) as socket:

            async def ask(kind: str, data: dict[str, object]) -> dict[str, object]:
                await socket.send(json.dumps({"type": kind, "data": data}))
                reply: dict[str, object] = json.loads(await socket.recv())["data"]
                return reply

            await ask("reset", {"seed": number})
            return [(await ask("step", {"code": CODE}))["reward"] for _ in range(4)]  # type: ignore[misc]

    async def play_all() -> list[list[float]]:
        return await asyncio.gather(*(play(number) for number in range(64)))

    rewards = asyncio.run(play_all())
    assert len(rewards) == 64
    assert all(reward > 0 for episode in rewards for reward in episode)
    server.wait_for(5.0, active_sessions=0, parked_sessions=0)
    server.stop()


def test_clients_that_come_and_go_leave_nothing_behind(server: Server) -> None:
    before = threads(server)

    def churn() -> None:
        for _ in range(30):
            with server.connect() as wire:
                wire.reset()
                wire.step(CODE)
                wire.send("close")
                wire.closed()

    workers = [threading.Thread(target=churn) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    server.wait_for(5.0, active_sessions=0)
    assert threads(server) <= before + 8


def threads(server: Server) -> int:
    with open(f"/proc/{server.pid}/status") as status:
        return int(next(line for line in status if line.startswith("Threads")).split()[1])
