"""Who may speak to the server: the token, where one is set, and no pages of other sites.

An ASGI layer in front of every route, so that nothing is accepted, parsed or counted before. `/health` and
`/ready` stay open. The server runs what it is sent: a browser that visits another site must not reach it
through its user's machine, so requests whose `Origin` is not the server's own host are refused, and without a
token those of a page that has this machine's loopback address under a name (DNS rebinding). Bodies are capped.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import logging
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .protocol import Refusal

OPEN_PATHS = ("/health", "/ready")
BODY_CAP = 16 << 20
PATH_TOLD = 100

_logger = logging.getLogger(__name__)


class Access:
    """Wraps an ASGI application; an empty token lets every client in."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and scope["path"] not in OPEN_PATHS:
            refusal = self._judge(Headers(scope=scope), scope.get("server"))
            if refusal is not None:
                host = (scope.get("client") or ("an unknown address",))[0]
                _logger.warning("%s refused from %s: %s", repr(scope["path"][:PATH_TOLD]), host, refusal[1])
                await _refuse(scope, send, *refusal)
                return
        await self._app(scope, capped(receive) if scope["type"] == "http" else receive, send)

    def _judge(self, headers: Headers, address: tuple[str, int | None] | None) -> tuple[int, str] | None:
        """Status and reason where the request may not pass; `address` is where it arrived."""
        if not own_page(headers):
            return 403, "requests from pages of other sites are refused"
        if not self._token and rebound(headers, address[0] if address else ""):
            return 403, "open the page at http://127.0.0.1 or localhost, or set KERNEL_ENV_TOKEN"
        if self._token and not any(hmac.compare_digest(given, self._token) for given in tokens(headers)):
            return 401, "send the server's token: Authorization: Bearer ..., or X-Kernel-Env-Token"
        return None


def capped(receive: Receive) -> Receive:
    """`receive` of a request whose body may not exceed `BODY_CAP`; beyond it raises `Refusal` (TOO_LARGE)."""
    size = 0

    async def receive_some() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > BODY_CAP:
            raise Refusal("TOO_LARGE", f"the request's body is over {BODY_CAP} bytes")
        return message

    return receive_some


def tokens(headers: Headers) -> list[bytes]:
    """Every token a request carries; a browser's password prompt (Basic) counts by its password."""
    found = [headers.get("x-kernel-env-token", "").strip()]
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        found.append(value.strip())
    elif scheme.lower() == "basic":
        found.append(_password(value))
    # Starlette reads header bytes as latin-1.
    return [token.encode("latin-1") for token in found if token]


def own_page(headers: Headers) -> bool:
    """Whether a request comes from no page at all, or from one that this server served."""
    origin = headers.get("origin")
    if origin is None:
        return True
    hosts = (headers.get("host"), headers.get("x-forwarded-host"))
    return urlsplit(origin).netloc in [host for host in hosts if host]


def rebound(headers: Headers, address: str) -> bool:
    """Whether a page reached a loopback address by a name that anybody may have given it."""
    if "origin" not in headers or not _is_loopback(address):
        return False
    name = urlsplit(f"//{headers.get('host', '')}").hostname or ""
    return not (name == "localhost" or name.endswith(".localhost") or _is_address(name))


def _is_loopback(address: str) -> bool:
    return _is_address(address) and ip_address(address).is_loopback


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _password(value: str) -> str:
    try:
        return base64.b64decode(value.strip(), validate=True).decode("latin-1").partition(":")[2]
    except binascii.Error:
        return ""


async def _refuse(scope: Scope, send: Send, status: int, message: str) -> None:
    body = json.dumps({"detail": message, **Refusal("UNAUTHORIZED", message).data()}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b'Basic realm="kernel_env"'))
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    prefix = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    await send({"type": f"{prefix}.start", "status": status, "headers": headers})
    await send({"type": f"{prefix}.body", "body": body})
