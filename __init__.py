"""Marks the repository root as an OpenEnv environment; the packages are `kernel_env` and `server`."""
