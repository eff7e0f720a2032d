"""Runs nvcc with its passes for the host and for the device side by side, instead of one after the other.

`python nvcc.py NVCC ARGUMENTS...`, a program of its own that candidates run. nvcc itself lists the commands that
it would run, and the same commands run here. What they print comes in nvcc's order: where the host's pass fails,
as it does for any source with an error, nothing else is printed. The passes share one thing, an identifier for
names that are local to the file; nvcc makes it in the host's pass, here it is made before. A list of another form
than expected goes to nvcc as it is.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

_LISTED = "#$ "
_VARIABLE = re.compile(r"([A-Z_]+)=(.*)")
_GENERATE = "--gen_module_id_file"
_IDENTIFIER = "--module_id_file_name"
_SOURCE = "--orig_src_path_name"
_DEPENDENCIES = {"-MD": 1, "-MF": 2}
"""How many arguments each takes away: a list of headers would be a third pass over them."""


@dataclass(frozen=True)
class Commands:
    """`last` compiles what `host` has made and holds what `device` has made; `identifier` is a file."""

    variables: dict[str, str]
    host: list[str]
    device: list[str]
    last: str
    identifier: str
    source: str

    @classmethod
    def read(cls, listing: str) -> Commands | None:
        """None for a list that can't be divided."""
        lines = [line.removeprefix(_LISTED) for line in listing.splitlines() if line.startswith(_LISTED)]
        variables = {match[1]: match[2] for line in lines if (match := _VARIABLE.fullmatch(line))}
        commands = [line for line in lines if not _VARIABLE.fullmatch(line) and not line.startswith("rm ")]
        words = [shlex.split(command) for command in commands]
        programs = [os.path.basename(word[0]) for word in words if word]
        if programs[1:2] != ["cudafe++"] or programs.count("cudafe++") != 1 or "cicc" not in programs[2:-1]:
            return None
        front = words[1]
        if not {_GENERATE, _IDENTIFIER, _SOURCE} <= set(front) or "-E" not in words[0] or "-c" not in words[-1]:
            return None
        identifier, source = (front[front.index(option) + 1] for option in (_IDENTIFIER, _SOURCE))
        host = [commands[0], commands[1].replace(f"{_GENERATE} ", "")]
        return cls(variables, host, commands[2:-1], commands[-1], identifier, source)

    def run(self) -> int:
        Path(self.identifier).write_text(identifier_of(self.source), "utf-8")
        environment = os.environ | self.variables
        passes = [_started(commands, environment) for commands in (self.host, self.device)]
        said = [each.communicate()[0] for each in passes]
        for each, text in zip(passes, said, strict=True):
            sys.stdout.buffer.write(text)
            sys.stdout.flush()
            if each.returncode:
                return each.returncode
        return subprocess.run(["/bin/sh", "-c", self.last], env=environment, check=False).returncode


def _started(commands: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    command = ["/bin/sh", "-ec", "\n".join(commands)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)


def identifier_of(source: str) -> str:
    """In nvcc's form, from which names in anonymous namespaces are made; another for each file."""
    name = re.sub(r"\W", "_", os.path.basename(source))
    return f"_{zlib.crc32(os.fsencode(source)):08x}_{len(name)}_{name}_"


def _without_dependencies(arguments: list[str]) -> list[str]:
    kept: list[str] = []
    while arguments:
        taken = _DEPENDENCIES.get(arguments[0], 0)
        kept += [] if taken else arguments[:1]
        arguments = arguments[max(taken, 1) :]
    return kept


def main() -> int:
    compiler, *arguments = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="nvcc-") as folder:
        os.environ["TMPDIR"] = folder
        plain = _without_dependencies(arguments)
        listed = subprocess.run([compiler, "--dryrun", *plain], capture_output=True, text=True, check=False)
        commands = Commands.read(listed.stderr) if listed.returncode == 0 else None
        if commands is None:
            return subprocess.run([compiler, *arguments], check=False).returncode
        return commands.run()


if __name__ == "__main__":
    sys.exit(main())
