"""A connection's opening and end: which headers go with it, what a refusal means. Pure functions, no sockets.

What is told never holds the token that resumes an episode, which is part of the URL.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping

from websockets.exceptions import ConnectionClosed, InvalidStatus

from .errors import KernelEnvError, error_of

_CODES = {401: "UNAUTHORIZED", 403: "UNAUTHORIZED", 407: "UNAUTHORIZED", 503: "SERVER_STARTING"}
_QUERY = re.compile(r"\?resume=[^\s:]*")
_TOO_BIG = 1009


def request_headers(
    environ: Mapping[str, str], token: str | None, extra: Mapping[str, str] | None
) -> dict[str, str] | None:
    """Headers of every connection: the server's token, a Modal proxy's key pair, then `extra` on top.

    `token` None means KERNEL_ENV_TOKEN of `environ`; an empty one sends none. Where `extra` has an
    `Authorization` of its own, for a proxy, the token goes into `X-Kernel-Env-Token`.
    """
    given = {name.lower() for name in extra or {}}
    headers: dict[str, str] = {}
    token = (environ.get("KERNEL_ENV_TOKEN", "") if token is None else token).strip()
    if token and "authorization" in given:
        headers["X-Kernel-Env-Token"] = token
    elif token:
        headers["Authorization"] = f"Bearer {token}"
    key, secret = environ.get("MODAL_PROXY_KEY", ""), environ.get("MODAL_PROXY_SECRET", "")
    if key and secret:
        headers |= {"Modal-Key": key, "Modal-Secret": secret}
    headers = {name: value for name, value in headers.items() if name.lower() not in given}
    return {**headers, **(extra or {})} or None


def refusal(error: ConnectionError) -> KernelEnvError | ConnectionError:
    """What to raise for a connection that could not be opened: typed where an HTTP status says more."""
    told, cause = _QUERY.sub("", str(error)), error.__cause__
    status = cause.response.status_code if isinstance(cause, InvalidStatus) else None
    if status in (403, 404):
        told += "; base_url is the server's address alone, such as http://localhost:8000"
    if code := _CODES.get(status or 0):
        return error_of(code, told)
    return ConnectionError(told + _advice(cause))


def oversize(error: ConnectionClosed, what: str) -> KernelEnvError | None:
    """The typed error where a connection was closed for a message's size; None where it was not."""
    if error.rcvd is not None and error.rcvd.code == _TOO_BIG and error.rcvd_then_sent:
        return error_of("TOO_LARGE", f"the server takes no {what} of this size: {error.rcvd.reason}")
    if error.sent is not None and error.sent.code == _TOO_BIG:
        return error_of(
            "TOO_LARGE", f"the reply to {what} is too large ({error.sent.reason}): raise max_message_size_mb"
        )
    return None


def _advice(cause: BaseException | None) -> str:
    if isinstance(cause, ConnectionRefusedError):
        return "; nothing listens there: `kernel-env serve` starts a server"
    if isinstance(cause, socket.gaierror):
        return "; check the host's name in base_url"
    if isinstance(cause, ssl.SSLError):
        return "; a server without a proxy for TLS is named by http://, not https://"
    return ""
