"""Shared objects in this process: which are mapped, and what one of them imports, read from memory.

Memory, not the file: that may be gone or another by now. A file that is read here was mapped by a submission and
may be anything, so a malformed one gives no strings. Nothing here judges; `linkage` and `origins` do.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass

DELETED = " (deleted)"
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_STRTAB, _DT_STRSZ = 5, 10
_HEADERS_CAP, _ENTRIES_CAP, _STRINGS_CAP = 64, 256, 64 << 20


@dataclass(frozen=True)
class Mapped:
    """One file with code in this process. `spans` are its readable parts: first and last address, offset in it."""

    path: str
    spans: tuple[tuple[int, int, int], ...]

    def contents(self) -> list[bytes]:
        return [ctypes.string_at(start, end - start) for start, end, _ in self.spans]

    def is_elf(self) -> bool:
        """Else it is code that a program wrote for itself, as libffi does for callbacks."""
        return any(self._read(start, 4) == b"\x7fELF" for start, _, _ in self.spans)

    def strings(self) -> set[str]:
        """Of the dynamic string table: imported and exported symbols, and the names of needed libraries."""
        base = next((start for start, _, offset in self.spans if offset == 0), None)
        table = None if base is None else self._table(base)
        if table is None:
            return set()
        return {text.decode("ascii", "replace") for text in self._read(*table).split(b"\0") if text}

    def _table(self, base: int) -> tuple[int, int] | None:
        header = self._read(base, 64)
        if header[:5] != b"\x7fELF\x02":  # 64 bits
            return None
        (offset,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        lowest, dynamic = None, None
        for index in range(min(count, _HEADERS_CAP)):
            entry = self._read(base + offset + index * size, 56)
            if len(entry) < 56:
                return None
            kind, _, _, address = struct.unpack_from("<IIQQ", entry)
            (length,) = struct.unpack_from("<Q", entry, 40)
            if kind == _PT_LOAD:
                lowest = address if lowest is None else min(lowest, address)
            elif kind == _PT_DYNAMIC:
                dynamic = address, length
        if dynamic is None or lowest is None:
            return None
        bias = base - (lowest & ~0xFFF)
        return self._strings_of(bias, bias + dynamic[0], dynamic[1])

    def _strings_of(self, bias: int, address: int, length: int) -> tuple[int, int] | None:
        content = self._read(address, min(length, 16 * _ENTRIES_CAP))
        found = dict(struct.unpack_from("<QQ", content, at) for at in range(0, len(content) - 15, 16))
        start, size = found.get(_DT_STRTAB), found.get(_DT_STRSZ)
        if start is None or size is None or size > _STRINGS_CAP:
            return None
        # The loader replaces the offset by the address.
        return (start, size) if self._holds(start, size) else (bias + start, size)

    def _holds(self, start: int, size: int) -> bool:
        return any(first <= start and start + size <= last for first, last, _ in self.spans)

    def _read(self, start: int, size: int) -> bytes:
        return ctypes.string_at(start, size) if size > 0 and self._holds(start, size) else b""


def mapped() -> dict[str, Mapped]:
    """By path, everything that has an executable part; a file that is gone ends in `DELETED`."""
    parts: dict[str, list[tuple[int, int, int, str]]] = {}
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as listing:
        for line in listing:
            fields = line.rstrip("\n").split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith(("/", "memfd:")):
                first, last = (int(address, 16) for address in fields[0].split("-"))
                parts.setdefault(fields[5], []).append((first, last, int(fields[2], 16), fields[1]))
    return {
        path: Mapped(path, _joined([span for span in spans if span[3].startswith("r")]))
        for path, spans in parts.items()
        if any("x" in span[3] for span in spans)
    }


def _joined(spans: list[tuple[int, int, int, str]]) -> tuple[tuple[int, int, int], ...]:
    """Neighbours as one, so that what lies across their border can be read."""
    joined: list[tuple[int, int, int]] = []
    for first, last, offset, _ in sorted(spans):
        if joined and joined[-1][1] == first:
            joined[-1] = joined[-1][0], last, joined[-1][2]
        else:
            joined.append((first, last, offset))
    return tuple(joined)
