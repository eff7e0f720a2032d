"""Which pool the settings name. No pool is loaded before it is asked for."""

from __future__ import annotations

from importlib.util import find_spec

from .config import Settings, SettingsError
from .pool import Pool


def pool_for(settings: Settings) -> Pool:
    """The pool that the settings name, not started. Raises `SettingsError` where a package for it is missing."""
    if settings.evaluator == "mock":
        from .mock import MockPool

        return MockPool(settings)
    if settings.pool == "ray":
        if find_spec("ray") is None:
            raise SettingsError("KERNEL_ENV_POOL=ray needs Ray: pip install 'openenv-kernel_env[ray]'")
        from .ray_pool import RayPool

        return RayPool(settings)
    if settings.pool == "modal":
        if find_spec("modal") is None:
            raise SettingsError("KERNEL_ENV_POOL=modal needs its client: pip install 'openenv-kernel_env[modal]'")
        from .modal_pool import ModalPool

        return ModalPool(settings)
    from .local import LocalPool

    return LocalPool(settings)
