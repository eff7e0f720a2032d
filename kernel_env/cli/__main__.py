"""`python -m kernel_env.cli` is `kernel-env`."""

from . import main

main()
