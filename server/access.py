"""Who may speak to the server: the token, where one is set, and no pages of other sites.

An ASGI layer in front of every route, so that nothing is accepted, parsed or counted before. `/health` and
`/ready` stay open. The server runs what it is sent: a browser that visits another site must not reach it
through its user's machine, so requests whose `Origin` is not the server's own host are refused.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from .protocol import Refusal

OPEN_PATHS = ("/health", "/ready")


class Access:
    """Wraps an ASGI application; an empty token lets every client in."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and scope["path"] not in OPEN_PATHS:
            headers = Headers(scope=scope)
            if not own_page(headers):
                return await _refuse(scope, send, 403, "requests from pages of other sites are refused")
            if self._token and not any(hmac.compare_digest(given, self._token) for given in tokens(headers)):
                return await _refuse(
                    scope, send, 401, "send the server's token: Authorization: Bearer ..., or X-Kernel-Env-Token"
                )
        await self._app(scope, receive, send)
        return None


def tokens(headers: Headers) -> list[bytes]:
    """Every token a request carries; a browser's password prompt (Basic) counts by its password."""
    found = [headers.get("x-kernel-env-token", "").strip()]
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        found.append(value.strip())
    elif scheme.lower() == "basic":
        found.append(_password(value))
    return [token.encode("utf-8", "replace") for token in found if token]


def own_page(headers: Headers) -> bool:
    """Whether a request comes from no page at all, or from one that this server served."""
    origin = headers.get("origin")
    if origin is None:
        return True
    hosts = (headers.get("host"), headers.get("x-forwarded-host"))
    return urlsplit(origin).netloc in [host for host in hosts if host]


def _password(value: str) -> str:
    try:
        return base64.b64decode(value.strip(), validate=True).decode("utf-8", "replace").partition(":")[2]
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
