"""The client where `openenv push` looks for it; import `kernel_env` instead."""

from kernel_env.client import KernelAction, KernelEnv, KernelObservation, KernelState

__all__ = ["KernelAction", "KernelEnv", "KernelObservation", "KernelState"]
