# The server with everything that evaluates: nvcc and g++ for load_inline, torch, triton, KernelBench's tasks.
# Without a GPU it evaluates on the CPU; KERNEL_ENV_TASKS=embedded leaves out tasks that are too large for one.
FROM nvidia/cuda:13.0.1-devel-ubuntu24.04 AS kernelbench
ARG KERNELBENCH_COMMIT=423217d9fda91e0c2d67e4a43bf62f96f6d104f1
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/source
RUN git init --quiet \
    && git fetch --quiet --depth 1 https://github.com/ScalingIntelligence/KernelBench.git "$KERNELBENCH_COMMIT" \
    && git checkout --quiet FETCH_HEAD

FROM nvidia/cuda:13.0.1-devel-ubuntu24.04
# python3-dev: triton and load_inline compile against Python's headers. Ubuntu keeps no old versions to pin.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ ninja-build python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*

ENV PATH=/opt/venv/bin:$PATH \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONUNBUFFERED=1
RUN python3 -m venv /opt/venv

WORKDIR /app
COPY requirements requirements
# Gigabytes, and seldom anything new: a layer of its own, before the sources.
RUN pip install --constraint requirements/lock.txt --requirement requirements/torch.txt
COPY --from=kernelbench /opt/source/KernelBench /opt/KernelBench
COPY pyproject.toml README.md LICENSE ./
COPY kernel_env kernel_env
COPY server server
# Extras by commas: ray for the nodes of a Ray cluster, level4 for KernelBench's models of Hugging Face.
ARG EXTRAS=huggingface,metrics
RUN pip install --constraint requirements/lock.txt ".[$EXTRAS]"

# Any user may run it, on a read-only root: everything that is written goes below /tmp.
ENV HOME=/tmp \
    XDG_CACHE_HOME=/tmp/.cache \
    KERNELBENCH_DIR=/opt/KernelBench \
    KERNEL_ENV_TASKS=kernelbench,embedded
USER 1000

EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
CMD ["kernel-env", "serve", "--host", "0.0.0.0", "--port", "8000"]
