"""Opening a connection: which headers go with it, and what a refusal means. Pure functions, no sockets."""

from __future__ import annotations

from collections.abc import Mapping

from websockets.exceptions import InvalidStatus

from .errors import KernelEnvError, error_of

_CODES = {401: "UNAUTHORIZED", 403: "UNAUTHORIZED", 407: "UNAUTHORIZED", 503: "SERVER_STARTING"}


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


def refusal(error: BaseException) -> KernelEnvError | None:
    """The typed error behind a connection that could not be opened; None where no HTTP status says more."""
    cause = error.__cause__
    if not isinstance(cause, InvalidStatus):
        return None
    code = _CODES.get(cause.response.status_code)
    return (code and error_of(code, str(error))) or None
