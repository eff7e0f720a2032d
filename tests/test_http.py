"""HTTP routes, access, and the server as a process: its start, its memory map, its end."""

from __future__ import annotations

import base64
import time

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from kernel_env.server.backend import DRAIN_S

from .conftest import Launch
from .serving import CODE, Server, scripted


@pytest.fixture(scope="module")
def server(launch: Launch) -> Server:
    return launch()


@pytest.fixture(scope="module")
def locked(launch: Launch) -> Server:
    return launch(KERNEL_ENV_TOKEN="s3cret")


def test_health_and_readiness(server: Server) -> None:
    health = server.health()
    assert (health["status"], health["state"]) == ("healthy", "ready")
    for name in ("version", "active_sessions", "max_sessions", "parked_sessions", "queued", "running", "devices"):
        assert name in health
    assert server.get("/ready").status_code == 200


def test_the_server_never_imports_torch_or_gradio(server: Server) -> None:
    with server.connect() as wire:
        wire.reset()
        wire.step(CODE)
    server.post("/reset", {"seed": 0})
    with open(f"/proc/{server.pid}/maps") as maps:
        loaded = maps.read()
    assert "libtorch" not in loaded
    assert "triton" not in loaded
    assert "pandas" not in loaded


def test_openenvs_routes(server: Server) -> None:
    assert server.get("/metadata").json()["name"] == "kernel_env"
    schema = server.get("/schema").json()
    assert "code" in schema["action"]["properties"]
    assert "speedup" in schema["observation"]["properties"]
    assert "turn" in schema["state"]["properties"]
    openapi = server.get("/openapi.json").json()
    assert openapi["info"]["version"].startswith("1.")
    assert {"/health", "/ready", "/reset", "/step", "/state", "/metadata", "/schema"} <= set(openapi["paths"])
    assert server.post("/mcp", {}).json()["jsonrpc"] == "2.0"


def test_tasks_make_a_data_set(server: Server) -> None:
    assert server.get("/list_environments").json() == ["kernel_env"]
    assert [split["name"] for split in server.get("/kernel_env/splits").json()] == ["train", "eval"]
    count = server.post("/kernel_env/num_tasks", {"split": "eval"}).json()["num_tasks"]
    tasks = server.post("/kernel_env/tasks", {"split": "eval"}).json()["tasks"]
    assert len(tasks) == count > 3
    with server.connect() as wire:
        for task in tasks[:3]:
            observation = wire.reset(task_id=task["task_id"])
            assert observation["observation"]["problem"] == task["prompt"]
            assert observation["metadata"]["task_hash"] == task["hash"]
            assert observation["metadata"]["split"] == task["split"] == "eval"
    second = server.post("/kernel_env/task", {"split": "eval", "index": 1}).json()["task"]
    assert second == tasks[1]
    assert (
        server.post("/kernel_env/task_range", {"split": "eval", "start": 1, "stop": 3}).json()["tasks"]
        == tasks[1:3]
    )
    for index in (-1, count):
        assert server.post("/kernel_env/task", {"split": "eval", "index": index}).status_code == 400
    refused = server.post("/kernel_env/tasks", {"split": "test"})
    assert (refused.status_code, refused.json()["code"]) == (422, "VALIDATION_ERROR")


def test_stateless_reset_and_step(server: Server) -> None:
    reset = server.post("/reset", {"seed": 0, "language": "cpp"}).json()
    assert reset["observation"]["language"] == "cpp"
    step = server.post("/step", {"action": {"code": CODE}, "task_id": "level1/e02_SiLU", "request_id": "a"}).json()
    assert (step["observation"]["task_id"], step["observation"]["stage"]) == ("level1/e02_SiLU", "passed")
    assert step["reward"] > 0
    assert step["metadata"]["request_id"] == "a"


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/step", {"action": {"code": CODE}}, 409, "NOT_RESET"),
        ("/step", {"action": {"code": CODE}, "task": "x"}, 422, "VALIDATION_ERROR"),
        ("/step", {"action": {"code": "#" * 300_000}, "seed": 0}, 413, "TOO_LARGE"),
        ("/step", {"action": {"code": "x", "x" * 9000: 1}, "seed": 0}, 422, None),
        ("/step", {"action": {"code": ["x" * 9000]}, "seed": 0}, 422, None),
        ("/step", {"action": "x" * 9000}, 422, None),
        ("/reset", {"seed": "x" * 9000}, 422, None),
        ("/reset", {"seed": 1 << 70}, 422, "VALIDATION_ERROR"),
        ("/reset", {"task_id": "nope"}, 422, "VALIDATION_ERROR"),
        ("/reset", {"sed": 1}, 422, "VALIDATION_ERROR"),
        ("/reset", {"split": "test"}, 422, "VALIDATION_ERROR"),
    ],
)
def test_refusals_over_http(
    server: Server, path: str, body: dict[str, object], status: int, code: str | None
) -> None:
    reply = server.post(path, body)
    assert (reply.status_code, reply.json().get("code")) == (status, code)
    assert len(reply.text) < 3000


def test_a_body_beyond_the_cap_is_not_read(server: Server) -> None:
    try:
        reply = server.post("/step", {"action": {"code": "#" * (40 << 20)}, "seed": 0})
    except httpx.TransportError:
        return
    assert reply.status_code in (400, 413)


def test_a_token_guards_all_but_health(locked: Server) -> None:
    assert locked.get("/health").status_code == 200
    assert locked.get("/ready").status_code == 200
    for path in ("/metadata", "/state", "/docs", "/kernel_env/splits"):
        assert locked.get(path).status_code == 401
    for path in ("/reset", "/step", "/mcp"):
        reply = locked.post(path, {"action": {"code": CODE}, "seed": 0})
        assert (reply.status_code, reply.json()["code"]) == (401, "UNAUTHORIZED")
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "s3cret"}):
        with pytest.raises(InvalidStatus) as refused, locked.connect(additional_headers=headers):
            pass
        assert refused.value.response.status_code == 401
    assert locked.health()["active_sessions"] == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer s3cret"},
        {"X-Kernel-Env-Token": "s3cret"},
        {"Authorization": "Basic " + base64.b64encode(b"me:s3cret").decode()},
        {"Authorization": "Bearer of-a-proxy", "X-Kernel-Env-Token": "s3cret"},
    ],
)
def test_the_token_opens(locked: Server, headers: dict[str, str]) -> None:
    assert locked.get("/metadata", headers=headers).status_code == 200
    with locked.connect(additional_headers=headers) as wire:
        wire.reset()
        assert wire.step(CODE)["observation"]["turn"] == 1


def test_pages_of_other_sites_are_refused(server: Server) -> None:
    host = server.url.removeprefix("http://")
    for origin, status in (("http://evil.example", 403), ("null", 403), (f"http://{host}", 200)):
        assert server.get("/metadata", headers={"Origin": origin}).status_code == status
    with pytest.raises(InvalidStatus) as refused, server.connect(origin="http://evil.example"):
        pass
    assert refused.value.response.status_code == 403
    with server.connect(origin=server.url) as wire:
        wire.reset()


def test_a_name_for_the_loopback_address_makes_no_page_ours(server: Server, locked: Server) -> None:
    """DNS rebinding: a site's own name, resolved to 127.0.0.1 once its page is loaded."""
    port = server.url.rpartition(":")[2]
    for name, status in (
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("localhost", 200),
        ("kernels.localhost", 200),
        ("[::1]", 200),
    ):
        headers = {"Host": f"{name}:{port}", "Origin": f"http://{name}:{port}"}
        assert server.get("/metadata", headers=headers).status_code == status, name
    assert server.get("/metadata", headers={"Host": "behind.a.proxy"}).status_code == 200
    named = {"Host": "kernels.example", "Origin": "http://kernels.example", "X-Kernel-Env-Token": "s3cret"}
    assert locked.get("/metadata", headers=named).status_code == 200


def test_stdout_holds_events_alone(server: Server) -> None:
    server.get("/metadata")
    server.get("/nowhere")
    events = server.events()
    assert {event["event"] for event in events} <= {"reset", "step"}


def test_sigterm_in_mid_step_ends_the_server_soon(launch: Launch) -> None:
    server = launch(scripted=True)
    with server.connect() as wire:
        wire.reset()
        wire.step(CODE)
        wire.send("step", {"code": scripted(sleep=60.0)})
        server.wait_for(5.0, running=1)
        begun = time.monotonic()
        server.stop()
        assert DRAIN_S <= time.monotonic() - begun < DRAIN_S + 5.0
        assert wire.closed() == 1012
    assert [event["event"] for event in server.events()] == ["reset", "step"]
    assert "Traceback" not in server.stderr.read_text()
