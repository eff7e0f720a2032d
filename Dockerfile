# The server with everything that evaluates: nvcc and g++ for load_inline, torch, triton.
# The tasks are the embedded ones; mount a KernelBench checkout and set KERNELBENCH_DIR for its own.
FROM nvidia/cuda:13.0.1-devel-ubuntu24.04

# python3-dev: triton and load_inline compile against Python's headers.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ ninja-build python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*

ENV PATH=/opt/venv/bin:$PATH \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONUNBUFFERED=1
RUN python3 -m venv /opt/venv

WORKDIR /app
COPY requirements/torch.txt requirements/
RUN pip install --requirement requirements/torch.txt
COPY pyproject.toml README.md LICENSE ./
COPY kernel_env kernel_env
COPY server server
RUN pip install .

# Any user may run it, on a read-only root: everything that is written goes below /tmp.
ENV HOME=/tmp \
    XDG_CACHE_HOME=/tmp/.cache
USER 1000

EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
CMD ["kernel-env", "serve", "--host", "0.0.0.0", "--port", "8000"]
