"""What the sandbox keeps from a submission, tried by submissions in real processes; and what is told of it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kernel_env.server import landlock, paths, seccomp
from kernel_env.server.app import START_FAILED
from kernel_env.server.config import Settings
from kernel_env.server.layers import LAYERS, Report
from kernel_env.server.local import LocalPool
from kernel_env.server.outcome import Outcome

from .pools import evaluated, started
from .processes import find, folder_of
from .serving import PLAIN, Server
from .submissions import TASK, in_forward, vary

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

SECRET = "a-secret-of-the-server"
needs_landlock = pytest.mark.skipif(landlock.abi() < 1, reason="the kernel has no Landlock")
needs_filter = pytest.mark.skipif(not seccomp.supported(), reason="no filter for this machine")

# A way to modules that the static checks refuse. `attempt` notes what is not refused; the submission then fails.
REACH = """
def reach(name):
    return getattr(reach, "__glo" + "bals__")["__buil" + "tins__"]["__imp" + "ort__"](name)


os, sys = reach("os"), reach("sys")
ctypes = reach("torch")._ops.ctypes  # the way by its own name is closed, too
file = reach("io").open
done = []


def attempt(name, act):
    try:
        done.append((name, act()))
    except (PermissionError, FileNotFoundError):
        pass


"""
TELL = "\n\nif done:\n    raise ValueError(str(done))\n\n\n"


def trying(statements: str) -> str:
    """Passes if everything that it attempts at its import is refused."""
    return vary("@triton.jit\n", f"{REACH}{statements}{TELL}@triton.jit\n")


def when_run(statement: str) -> str:
    return in_forward(statement).replace("@triton.jit\n", f"{REACH}@triton.jit\n", 1)


@pytest.fixture(scope="module")
def task_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Readable for everyone, as a checkout is."""
    file = tmp_path_factory.mktemp("tasks") / "softmax.py"
    file.write_text(TASK)
    return file


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool(task_file: Path) -> AsyncIterator[LocalPool]:
    settings = Settings(evaluator="cpu", trials=1, timing_budget_s=0.3, tasks=(str(task_file),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNEL_ENV_TOKEN", SECRET)
        async with started(settings) as pool:
            yield pool


async def judge(pool: LocalPool, code: str) -> Outcome:
    return (await evaluated(pool, code)).outcome


def ours() -> list[int]:
    return [os.getpid(), *find("server.worker"), *find("server.judge"), *find("server.zygote", leaf=False)]


async def test_every_layer_is_told(pool: LocalPool) -> None:
    health = pool.health()
    layers = health["sandbox"]
    assert list(layers) == list(LAYERS)
    assert health["devices"][0]["sandbox"] == layers
    for layer in layers.values():
        assert layer["state"] == "active" or (layer["state"] == "unavailable" and layer["why"])
    always = ["privileges", "limits", "environment", "scratch", "death_signal", "cleanup", "memory"]
    assert {layers[name]["state"] for name in always} == {"active"}, layers
    assert (layers["landlock"]["state"] == "active") == (landlock.abi() >= 1), layers
    assert (layers["seccomp"]["state"] == "active") == seccomp.supported(), layers


@needs_landlock
async def test_files_of_the_server_are_closed(pool: LocalPool, task_file: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    embedded = next(Path(paths.PACKAGE).rglob("embedded/*/*.py"))
    files = [secret, task_file, embedded, Path(__file__), Path("/etc/shadow")]
    statements = [f"attempt({str(path)!r}, lambda: file({str(path)!r}, 'rb').read(20))" for path in files]
    places = [tmp_path / "new", Path("/usr/new"), Path(paths.PACKAGE, "new"), Path("/tmp/new")]
    statements += [f"attempt({str(place)!r}, lambda: file({str(place)!r}, 'w'))" for place in places]
    statements += [f"attempt('list', lambda: os.listdir({folder!r}))" for folder in ("/tmp", str(tmp_path), "..")]
    outcome = await judge(pool, trying("\n".join(statements)))
    assert outcome.kind == "passed", outcome


async def test_processes_of_the_server_are_closed(pool: LocalPool) -> None:
    """Their environment holds its token, their memory everything else."""
    assert SECRET in os.environ.values()
    statements = []
    for pid in ours():
        for entry in ("environ", "mem", "maps"):
            statements.append(f"attempt('{entry} of {pid}', lambda: file('/proc/{pid}/{entry}', 'rb').read(1))")
        statements.append(f"attempt('limit of {pid}', lambda: reach('resource').prlimit({pid}, 7, (9, 9)))")
        statements.append(f"attempt('signal to {pid}', lambda: os.kill({pid}, 0))")
    statements.append("attempt('signal to all', lambda: os.kill(-1, 0))")
    statements.append(f"attempt('a token', lambda: 1 if {SECRET!r} in str(dict(os.environ)) else file('/none'))")
    outcome = await judge(pool, trying("\n".join(statements)))
    assert outcome.kind == "passed", outcome


TRACE = """
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(64)
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
part = ctypes.byref(Part(ctypes.addressof(buffer), 8))
def call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)
for pid in {pids}:
    attempt("attach", lambda: call("ptrace", 16, pid, 0, 0))
    attempt("read", lambda: call("process_vm_readv", pid, part, 1, part, 1, 0))
attempt("unshare", lambda: call("unshare", 0x10000000))
attempt("mount", lambda: call("mount", None, b"/", None, 0, None))
attempt("own memory", lambda: call("process_vm_readv", os.getpid(), part, 1, part, 1, 0))
"""


@needs_filter
async def test_nothing_can_be_traced(pool: LocalPool) -> None:
    outcome = await judge(pool, trying(TRACE.replace("{pids}", str(ours()))))
    assert outcome.kind == "passed", outcome


@needs_filter
async def test_the_network_is_unreachable(pool: LocalPool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        outcome = await judge(
            pool,
            trying(
                "socket = reach('socket')\n"
                f"attempt('connect', lambda: socket.create_connection(('127.0.0.1', {port}), 5))\n"
                "for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET):\n"
                "    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):\n"
                "        attempt(str(family), lambda: socket.socket(family, kind))"
            ),
        )
        listener.settimeout(0.1)
        with pytest.raises(TimeoutError):
            listener.accept()
    assert outcome.kind == "passed", outcome


async def noted(worker: int, name: str) -> Path:
    """The file of this name, once a candidate has written into it in its scratch folder."""
    for _ in range(600):
        for note in folder_of(worker).glob(f"candidate-*/{name}"):
            if note.stat().st_size:
                return note
        await asyncio.sleep(0.05)
    raise AssertionError(f"no candidate wrote {name}")


@needs_landlock
async def test_other_submissions_are_closed(pool: LocalPool) -> None:
    """One that runs at the time: its source, its scratch folder, its process."""
    (worker,) = find("server.worker")
    hold = "file('own', 'w').write(f'{os.getpid()} {__file__}'); reach('time').sleep(1000)"
    running = asyncio.create_task(judge(pool, when_run(hold)))
    note = await noted(worker, "own")  # it runs, so that the other one can be built
    pid, source = note.read_text().split()
    statements = [f"attempt({path!r}, lambda: file({path!r}).read())" for path in (source, str(note))]
    statements += [
        f"attempt('list', lambda: os.listdir({str(folder)!r}))" for folder in (note.parent, folder_of(worker))
    ]
    statements += [
        f"attempt({entry!r}, lambda: file('/proc/{pid}/{entry}', 'rb').read(1))" for entry in ("environ", "mem")
    ]
    statements.append("file('tried', 'w').write('1')")
    other = asyncio.create_task(judge(pool, trying("\n".join(statements))))
    await noted(worker, "tried")  # in its build, which needs no device
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    outcome = await other
    assert outcome.kind == "passed", outcome


async def test_switched_off_is_told() -> None:
    async with started(Settings(evaluator="cpu", sandbox="off")) as pool:
        layers = pool.health()["sandbox"]
        assert {layers[name]["state"] for name in ("uid", "privileges", "landlock", "seccomp")} == {"off"}
        assert layers["cleanup"]["state"] == "active"


async def test_a_strict_server_starts_with_every_required_layer_or_not_at_all(
    pool: LocalPool, tmp_path: Path
) -> None:
    settings = {"KERNEL_ENV_EVALUATOR": "cpu", "KERNEL_ENV_SANDBOX": "strict"}
    lacking = Report.parse(pool.health()["sandbox"]).missing()
    server = Server(PLAIN, settings, tmp_path)
    if not lacking:
        assert server.wait_until_up().health()["state"] == "ready"
        server.stop()
        return
    assert await asyncio.to_thread(server.process.wait, 90.0) == START_FAILED
    said = server.stderr.read_text()
    assert f"this machine lacks: {'; '.join(lacking)}" in said
    assert "Traceback" not in said


ORDINARY = """
import encodings.ascii  # which that user may not be able to read
import os
from kernel_env.server import kernel, sandbox
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
sandbox.close_to_others()
sandbox.limit()
print(open("/proc/self/oom_score_adj").read().strip(), kernel.prctl(3))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
async def test_limits_hold_for_an_ordinary_users_server() -> None:
    """Its processes own nothing below /proc/self once they are closed to others, and stay so (PR_GET_DUMPABLE)."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", ORDINARY, stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()
    assert told.decode().split() == ["1000", "0"]


HIDDEN = """
import os, sys
from kernel_env.server import capabilities, sandbox
capabilities.drop()
os.chmod(sys.argv[1], 0)
sandbox.settle_in(sys.argv[1])
open("kernel", "w").close()
"""


async def test_a_folder_that_a_submission_has_closed_is_open_to_its_next_process(tmp_path: Path) -> None:
    """Where candidates share the server's user; else what it closes would be a fault of ours."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", HIDDEN, str(tmp_path))
    assert await process.wait() == 0
    assert [path.name for path in tmp_path.iterdir()] == ["kernel"]


async def test_a_folder_on_the_search_path_closes_no_library_that_lies_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("own/tasks", "own/venv/lib", "other"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path), str(tmp_path / "own/venv")])
    found = paths.readable([str(tmp_path / "own")])
    assert [path for path in found if path.startswith(str(tmp_path))] == [
        str(tmp_path / name) for name in ("other", "own/venv")
    ]
