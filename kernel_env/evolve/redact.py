"""Keeps secrets out of everything that a run writes: each known secret is replaced wherever it stands.

Known are the key, the values of headers, and the user part of URLs. Applied to texts as they come in (answers,
errors of the endpoint), so that what a run goes on with is what it saves. Settings that hold secrets are not saved
at all, however short those are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

MARK = "[redacted]"
# Texts that may stand in any program are kept: short ones, and plain words such as a header's "research".
SHORTEST = 8
LONGEST_WORD = 16

_USERINFO = re.compile(r"(?<=://)[^/\s@]+@")


class Redactor:
    def __init__(self, secrets: Iterable[str | None]) -> None:
        found = {part for secret in secrets if secret for part in _forms(secret)}
        # The longest first: one may hold another.
        self._secrets = sorted(filter(_telling, found), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MARK)
        return text

    def deep(self, value: Any) -> Any:
        """`value` of JSON's types with every text in it redacted."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, dict):
            return {self(str(key)): self.deep(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.deep(item) for item in value]
        return value


def without_userinfo(url: str) -> str:
    """`url` less user and password."""
    return _USERINFO.sub(f"{MARK}@", url)


def userinfo(url: str | None) -> list[str]:
    """User and password of a URL, each a secret."""
    parts = urlsplit(url or "")
    return [part for part in (parts.username, parts.password) if part]


def _telling(text: str) -> bool:
    return len(text) >= SHORTEST and not (text.isalpha() and len(text) <= LONGEST_WORD)


def _forms(secret: str) -> Iterable[str]:
    """A header's value may be a scheme and a token: the token alone is secret, too."""
    yield secret
    scheme, _, token = secret.partition(" ")
    if token and scheme.lower() in ("bearer", "basic", "token", "key"):
        yield token
