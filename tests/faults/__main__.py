"""`python -m tests.faults [--device cpu|gpu] [--json FILE] [NAME...]`: each fault, its outcome, what it cost.

Exit status 1 where something is not as the fault's file says, or recovery took longer than promised.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from . import Fault, faults
from .trial import Finding, bench, possible, tried

CRASH_S = 1.0
KILL_S = 15.0
"""What a recovery may take on a machine with nothing else to do."""

console = Console(width=None if sys.stdout.isatty() else 150)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--json", type=Path, help="where to write every result")
    parser.add_argument("names", nargs="*", help="only these, such as crashes/segfault")
    options = parser.parse_args()
    every = faults("cpu" if options.device == "cpu" else "cuda")
    chosen = [f for f in every if not options.names or f.name in options.names or str(f) in options.names]
    began = time.monotonic()
    findings = asyncio.run(_run(options.device, [fault for fault in chosen if possible(fault)]))
    console.print(_table(findings))
    good = [finding for finding in findings if not _problems(finding)]
    console.print(f"{len(good)} of {len(findings)} faults as expected, in {time.monotonic() - began:.0f} s")
    if options.json:
        options.json.write_text(json.dumps([_told(finding) for finding in findings], indent=1))
    return 0 if len(good) == len(findings) else 1


async def _run(device: str, chosen: Sequence[Fault]) -> list[Finding]:
    findings = []
    async with bench(device) as pool:
        for fault in chosen:
            findings.append(await tried(pool, fault))
            for problem in _problems(findings[-1]) or ["as expected"]:
                console.print(f"{fault!s:34} {problem}", markup=False, highlight=False)
    return findings


def _problems(finding: Finding) -> list[str]:
    most_s = KILL_S if finding.fault.victim else CRASH_S
    slow = finding.recovered_s > most_s
    return finding.problems + ([f"recovered in {finding.recovered_s:.2f} s, not {most_s:g} s"] if slow else [])


def _table(findings: Sequence[Finding]) -> Table:
    table = Table("fault", "outcome", "stage", "said", "took s", "recovered s", "left behind")
    for column in table.columns[:3]:
        column.no_wrap = True
    for finding in findings:
        table.add_row(
            str(finding.fault),
            finding.outcome.kind,
            finding.outcome.stage,
            finding.told[:40],
            f"{finding.took_s:.2f}",
            f"{finding.recovered_s:.2f}",
            ", ".join(finding.left) or "nothing",
            style="red" if _problems(finding) else None,
        )
    return table


def _told(finding: Finding) -> dict[str, object]:
    return {
        "fault": str(finding.fault),
        "what": finding.fault.what,
        "outcome": finding.outcome.model_dump(),
        "took_s": finding.took_s,
        "recovered_s": finding.recovered_s,
        "left": finding.left,
        "problems": _problems(finding),
    }


if __name__ == "__main__":
    sys.exit(main())
