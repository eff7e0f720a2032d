"""What a candidate must not be able to do, and what it needs to: tried for real, in a process that may be lost.

An act returns what is wrong, or None. `attempt` runs one in a forked process, so that a layer it puts on, and
whatever else it does, ends with it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import torch

from . import activity, kernel, sandbox
from .strays import collect

LIMIT_S = 30.0
COMPILE_S = 20.0
SAID = 400

Act = Callable[[], str | None]


def attempt(*acts: Act) -> str | None:
    """Do them one after the other in a new process, which ends with them; what the first that fails says."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _tell(write, acts)
    os.close(write)
    ready, _, _ = select.select([read], [], [], LIMIT_S)
    said = os.read(read, SAID).decode(errors="replace") if ready else "no answer in time"
    os.close(read)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    collect(pid)
    return None if said == "fine" else said or "the process that tried it ended"


def _tell(write: int, acts: tuple[Act, ...]) -> None:
    said = "fine"
    try:
        said = next((why for act in acts if (why := act())), said)
    except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
        said = f"{type(error).__name__}: {error}"
    finally:
        os.write(write, said.encode()[:SAID])
        os._exit(0)


def refused(what: str, act: Callable[[], object]) -> str | None:
    try:
        act()
    except PermissionError:
        return None
    return f"{what} was possible"


def reads(path: str) -> Act:
    return lambda: refused(f"reading {path}", lambda: Path(path).read_bytes())


def writes(path: str) -> Act:
    return lambda: refused(f"writing {path}", lambda: os.close(os.open(path, os.O_WRONLY)))


def signals(pid: int) -> Act:
    return lambda: refused(f"a signal to process {pid}", lambda: os.kill(pid, 0))


def connects(port: int) -> Act:
    return lambda: refused("a TCP connection", lambda: socket.create_connection(("127.0.0.1", port), 1.0).close())


def looks_into(pid: int) -> str | None:
    """Environment, memory and open files of another process."""
    paths = [f"/proc/{pid}/{entry}" for entry in ("environ", "mem", "maps")]
    return next((why for path in paths if (why := refused(f"opening {path}", partial(_open, path)))), None)


def _open(path: str) -> None:
    Path(path).open("rb").close()


def gains() -> str | None:
    """Another user's id, or a capability."""
    return refused("changing the user id", lambda: os.setuid(12345 if os.getuid() != 12345 else 12346))


def calls() -> str | None:
    """What only the filter refuses: each of these goes wrong otherwise without it, or succeeds."""
    with suppress(PermissionError):
        socket.socket(socket.AF_INET).close()
        return "an internet socket was possible"
    buffer = ctypes.create_string_buffer(256)
    tried = {
        "ptrace": lambda: kernel.function("ptrace", 0, 0, 0, 0),
        "process_vm_readv": lambda: kernel.function("process_vm_readv", os.getpid(), 0, 0, 0, 0, 0),
        "unshare": lambda: kernel.function("unshare", 0),
        "setns": lambda: kernel.function("setns", -1, 0),
        "io_uring_setup": lambda: kernel.call("io_uring_setup", 425, 0, ctypes.byref(buffer)),
        "pidfd_getfd": lambda: kernel.call("pidfd_getfd", 438, -1, 0, 0),
        "fsopen": lambda: kernel.call("fsopen", 430, 0, 0),
    }
    return next((why for name, act in tried.items() if (why := refused(name, act))), None)


def is_limited() -> str | None:
    """Files of any size, as many as one likes."""
    with suppress(OSError):
        os.dup2(0, resource.getrlimit(resource.RLIMIT_NOFILE)[0] + 1)
        return "a descriptor beyond the limit was possible"
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    fd = os.open(f"{os.getcwd()}/large", os.O_CREAT | os.O_WRONLY, 0o600)
    with suppress(OSError):
        os.ftruncate(fd, resource.getrlimit(resource.RLIMIT_FSIZE)[0] + 1)
        return "a file beyond the limit was possible"
    os.unlink("large")
    with open("/proc/self/oom_score_adj", encoding="ascii") as file:
        if file.read().strip() != sandbox.FIRST_TO_GO:
            return "the kernel may end the server before it where memory runs out"
    return None


def cannot_multiply() -> str | None:
    """With the number of processes limited to those that there are."""
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    try:
        pid = os.fork()
    except BlockingIOError:
        return None
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "the limit on processes has no effect"


def works(scratch: str) -> str | None:
    """What honest submissions do, short of the device: files, threads, Python's and torch's files, a compiler."""
    Path(scratch, "written").write_text("")
    socket.socketpair()[0].close()
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    for path in (os.__file__, torch.__file__, f"{os.path.dirname(torch.__file__)}/include/torch/extension.h"):
        os.listdir(os.path.dirname(path))
        _open(path)
    subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True, timeout=COMPILE_S, capture_output=True)
    return _compiles(scratch)


def _compiles(scratch: str) -> str | None:
    compiler = shutil.which(os.environ.get("CXX") or "g++")
    if compiler is None:
        return None
    Path(scratch, "empty.cpp").write_text("#include <cstddef>\n")
    command = [compiler, "-c", "empty.cpp", "-o", "empty.o"]
    done = subprocess.run(command, cwd=scratch, timeout=COMPILE_S, capture_output=True, text=True, check=False)
    return f"the C++ compiler fails: {done.stderr.strip()[-200:]}" if done.returncode else None


def records_kernels() -> str | None:
    """Are the kernels that this process launches known by name?"""
    if not activity.supported():
        return "PyTorch was built without CUPTI"
    device = torch.device("cuda", 0)
    values = torch.zeros(1024, device=device)
    with activity.Recorder(device) as recorder:
        values.add_(1)
    report = recorder.report(1, lambda name: "")
    seen = any("add" in str(kernel["name"]).lower() for kernel in report["kernels"])
    return None if report["complete"] and seen else "CUPTI records no kernels (does another profiler use it?)"


def drives_a_device() -> str | None:
    torch.zeros(1, device="cuda")
    return None
