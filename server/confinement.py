"""What a worker's candidates are confined to: found out once by probing, then given with every fork.

`Home` is a submission's own: a scratch folder and, where the machine allows it, a user id. A home's end removes
the folder and named shared memory; its id goes round again only if nothing of it was left running.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import identity, model_cache, nodes, paths
from .child import Child, StartFailed, StartRefusedError
from .finish import finish
from .folders import remove
from .forked import forked
from .frames import FrameError
from .identity import Block
from .layers import Plan, Report

PROBE_S = 120.0
WITHOUT_LISTING = 0o711

_logger = logging.getLogger(__name__)


@dataclass
class Home:
    """`uid` 0 is our own user; `lost` after something of it could not be ended."""

    scratch: str
    uid: int = 0
    lost: bool = False


class Confinement:
    """`config` is the worker's: folder, device, index, sandbox (the mode) and closed (paths)."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._folder: str = config["folder"]
        self._block: Block | None = None
        self._plan = Plan()
        self.report = Report()

    async def settle(self, zygote: Child, ours: Sequence[int], environment: dict[str, str]) -> None:
        """Probe. `ours`: processes to protect; `environment`: what a candidate gets.

        Raises `StartFailed`, in strict mode for a missing layer.
        """
        read = await asyncio.to_thread(paths.readable, [paths.PACKAGE, self._folder, *self._config["closed"]])
        wish = Plan(read=tuple(read), write=(*nodes.PLAIN, *self._gpu()), protected=_protected(ours))
        if self._config["sandbox"] != "off":
            wish = await self._with_uid(wish)
        reply = await self._probe(zygote, wish, ours, environment)
        self._plan, self.report = Plan.parse(reply["plan"]), Report.parse(reply["layers"])
        if not self._plan.uid:
            os.chmod(self._folder, 0o700)
        if self._config["sandbox"] == "strict" and (missing := self.report.missing(self._config["device"])):
            raise StartRefusedError(f"KERNEL_ENV_SANDBOX=strict, but this machine lacks: {'; '.join(missing)}")

    async def _with_uid(self, wish: Plan) -> Plan:
        try:
            self._block = Block()
        except identity.Unavailable:
            return wish
        await asyncio.to_thread(self._block.sweep)
        os.chmod(self._folder, WITHOUT_LISTING)
        return replace(wish, uid=self._block.take(), helper=self._block.base)

    async def _probe(
        self, zygote: Child, wish: Plan, ours: Sequence[int], environment: dict[str, str]
    ) -> dict[str, Any]:
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix="secret-") as secret, _listener() as listener:
            scratch = tempfile.mkdtemp(prefix="probe-", dir=self._folder)
            spec = {
                "role": "probe",
                "scratch": scratch,
                "plan": wish.json(),
                "mode": self._config["sandbox"],
                "secret": secret.name,
                "port": listener.getsockname()[1],
                "ours": list(ours),
                "device": self._config["device"],
                "environment": environment,
                "allowed": [*zygote.environment, *environment],
            }
            try:
                async with forked(zygote, spec) as child:
                    reply = await child.reply(PROBE_S)
                if "failed" in reply:
                    raise StartFailed(f"the sandbox could not be tried: {reply['failed']}")
                return reply
            except (FrameError, TimeoutError):
                said = child.output.text().strip()[-500:]
                raise StartFailed(f"the sandbox could not be tried: {said or 'no answer'}") from None
            finally:
                await asyncio.to_thread(remove, scratch)

    def _gpu(self) -> tuple[str, ...]:
        return nodes.of_gpu(self._config["index"]) if self._config["device"] == "cuda" else ()

    @asynccontextmanager
    async def home(self, prefix: str) -> AsyncIterator[Home]:
        block = self._block if self._plan.uid else None
        home = Home(tempfile.mkdtemp(prefix=prefix, dir=self._folder), block.take() if block else 0)
        if home.uid:
            identity.hand_over(home.scratch, home.uid)
        try:
            yield home
        finally:
            await finish(asyncio.to_thread(_remove_all_of, home))
            if block and not home.lost:
                block.give_back(home.uid)

    @asynccontextmanager
    async def source(self, home: Home, name: str, text: str) -> AsyncIterator[str]:
        """A folder with a copy of the submission, which its user may read and we own."""
        folder = tempfile.mkdtemp(prefix="source-", dir=self._folder)
        try:
            await asyncio.to_thread(Path(folder, name).write_text, text, "utf-8")
            if home.uid:
                identity.show(folder, home.uid)
            yield folder
        finally:
            await finish(asyncio.to_thread(remove, folder))

    def plan(self, home: Home, source: str, ours: Sequence[int], device: bool, models: bool) -> Plan:
        """`device`: whether it gets the GPU's files; `models`: whether it may read the fetched ones."""
        read = (*self._plan.read, source, *([str(model_cache.folder())] if models else []))
        return replace(
            self._plan,
            uid=home.uid,
            read=read,
            write=self._plan.write if device else nodes.PLAIN,
            protected=_protected(ours),
        )

    def end_everyone(self) -> None:
        """After the death of what forked them. Blocking."""
        if self._block is not None:
            self._block.end_everyone()

    def close(self) -> None:
        """When nothing is forked any more: the user ids are given back."""
        if self._block is not None:
            self._block.close()
            self._block = None


def _remove_all_of(home: Home) -> None:
    """Its folder and, where it has a user id, the shared memory that it has given a name. Blocking."""
    remove(home.scratch)
    if home.uid:
        for path in identity.belongings(nodes.SHARED_MEMORY, home.uid):
            remove(path)


def _protected(ours: Sequence[int]) -> tuple[int, ...]:
    """Processes, all processes (-1), and the group that ours are in."""
    return (*ours, -1, -os.getpgid(0))


def _listener() -> socket.socket:
    """What a candidate must not be able to connect to."""
    return socket.create_server(("127.0.0.1", 0))
