"""The page's files and routes over real sockets: what is served, to whom, how it stays bounded."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from kernel_env.cli.demo import TASK
from kernel_env.server.eventlog import RECENT
from kernel_env.server.web import FILES, PATH

from .conftest import Launch
from .serving import CODE, Server, scripted


@pytest.fixture(scope="module")
def server(launch: Launch) -> Server:
    return launch(scripted=True, KERNEL_ENV_MAX_TURNS="100")


@pytest.fixture(scope="module")
def locked(launch: Launch) -> Server:
    return launch(KERNEL_ENV_TOKEN="s3cret", KERNEL_ENV_PEAKS="tf32=100,half=200,bandwidth=1000")


def json_of(server: Server, name: str, auth: Any = None, **query: str) -> Any:
    reply = server.get(PATH + name, params=query, auth=auth)
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize("address", ["/", "/web", "/web/"])
def test_it_is_where_people_look(server: Server, address: str) -> None:
    reply = server.get(address, follow_redirects=True)
    assert (reply.status_code, reply.url.path) == (200, PATH)
    assert "<title>kernel_env</title>" in reply.text


def test_it_needs_nothing_from_elsewhere(server: Server) -> None:
    wanted = set()
    for name in FILES:
        reply = server.get(PATH + name)
        policy = reply.headers["content-security-policy"]
        assert reply.status_code == 200
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';")
        assert "unsafe" not in policy
        assert policy.endswith("frame-ancestors 'none'")
        assert reply.headers["x-content-type-options"] == "nosniff"
        wanted |= set(re.findall(r'(?:src|href|from) ?=? ?"(?:\./)?([^"#]+)"', reply.text)) - {"data:,"}
        assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", reply.text)
    assert wanted == set(FILES) - {""}


def test_it_is_no_part_of_the_documented_interface(server: Server) -> None:
    assert not [path for path in server.get("/openapi.json").json()["paths"] if path.startswith("/web")]


def test_what_it_knows_of_the_server(server: Server) -> None:
    about = json_of(server, "about")
    assert about["languages"][:4] == ["triton", "cuda", "cpp", "helion"]
    assert about["max_turns"] == 100
    assert about["example"]["task"] == TASK
    assert all("class ModelNew" in code for code in about["example"]["code"].values())
    tasks = json_of(server, "tasks")
    assert len(tasks) == server.health()["tasks"]
    assert {"id": TASK, "level": 2, "split": "eval", "unusable": ""} in tasks


def test_peaks_go_by_the_devices_name(locked: Server) -> None:
    about = json_of(locked, "about", auth=("me", "s3cret"))
    assert about["peaks"] == {"mock": {"tf32": 100.0, "half": 200.0, "bandwidth": 1000.0}}


def test_recent_evaluations_are_few_and_tell_no_secrets(server: Server) -> None:
    with server.connect() as wire:
        wire.reset(task_id=TASK, episode_id="mine")
        for number in range(RECENT + 2):
            wire.step(scripted(speedup=1.0 + number), request_id=f"secret-{number}")
    recent = json_of(server, "recent")
    assert len(recent) == RECENT
    assert [step["speedup"] for step in recent] == [float(RECENT + 2 - number) for number in range(RECENT)]
    assert {(step["task_id"], step["outcome"], step["device"]) for step in recent} == {(TASK, "passed", "mock")}
    text = server.get(PATH + "recent").text
    assert not [word for word in ("secret", "mine", "ModelNew", "hash", "session") if word in text]


def test_stages_are_told_while_an_evaluation_runs(server: Server) -> None:
    assert json_of(server, "progress", episode="watched") == {"running": False, "stage": ""}
    with server.connect() as wire:
        wire.reset(episode_id="watched")
        assert json_of(server, "progress", episode="watched") == {"running": False, "stage": ""}
        wire.send("step", {"code": scripted(sleep=1.0, stage="timing")})
        assert until(server, "watched", running=True)["stage"] == "timing"
        wire.receive()
        assert json_of(server, "progress", episode="watched") == {"running": False, "stage": ""}
        wire.send("step", {"code": scripted(sleep=60.0, stage="build")})
        assert until(server, "watched", running=True)["stage"] == "build"
    until(server, "watched", running=False)


def until(server: Server, episode: str, running: bool) -> dict[str, Any]:
    deadline = time.monotonic() + 10.0
    while (told := json_of(server, "progress", episode=episode))["running"] is not running:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return dict(told)


def test_progress_needs_an_episode(server: Server) -> None:
    assert server.get(PATH + "progress").status_code == 422


def test_the_token_guards_it(locked: Server) -> None:
    names = [*FILES, "about", "tasks", "recent", "progress?episode=a"]
    for path in ("/", "/web", *(PATH + name for name in names)):
        refused = locked.get(path)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Basic realm="kernel_env"')
    for name in names:
        assert locked.get(PATH + name, auth=("me", "s3cret")).status_code == 200
    evil = locked.get(PATH + "recent", auth=("me", "s3cret"), headers={"Origin": "http://evil.example"})
    assert evil.status_code == 403


def test_it_is_a_tab_of_openenvs_page(launch: Launch) -> None:
    server = launch(ENABLE_WEB_INTERFACE="true")
    page = server.get("/", follow_redirects=True)
    assert (page.status_code, page.url.path) == (200, "/web/")
    assert "gradio" in page.text
    config = server.get("/web/config").json()
    labels = [part["props"].get("label") for part in config["components"] if part["type"] == "tabitem"]
    assert labels == ["Kernels", "Playground"]
    frames = [part["props"].get("value") or "" for part in config["components"] if part["type"] == "html"]
    assert any('<iframe src="kernels/"' in frame for frame in frames)
    ours = server.get(PATH)
    assert ours.headers["content-security-policy"].endswith("frame-ancestors 'self' https://huggingface.co")
    assert server.get("/web/metadata").json()["name"] == "kernel_env"
    assert server.post("/web/step", {"action": {"code": CODE}}).status_code == 409
