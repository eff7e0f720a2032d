"""The environment: HTTP and WebSocket server, episodes, tasks, checks, and the evaluation of submissions.

Installed as `kernel_env.server`. Only `app` and what it serves import openenv; the processes that
evaluate (`worker`, `judge`, `zygote`, `candidate`) never do, and only those three import torch.
"""
