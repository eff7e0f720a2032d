"""What operators watch: Prometheus's metrics of a server, read from the pool's health and from each evaluation.

`WatchedPool` is around every pool; nothing else in the server counts anything. Labels are of closed sets, but for
devices, which are few: no task, no client, no text of a submission. Needs `prometheus-client` (extra `metrics`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from kernel_env import __version__

from .outcome import ON_THE_DEVICE, Device, Evaluation, EvaluationRequest, Passed
from .pool import Pool

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BASELINES = 4096
SECONDS = (0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0)
RATIOS = (0.5, 0.8, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1, 1.2, 2.0)


_Labels = TypeVar("_Labels", bound=tuple[str, ...])

# A second series for each, which nobody draws.
disable_created_metrics()  # type: ignore[no-untyped-call]


class WatchedPool:
    """The pool within, each evaluation counted. See `pool.Pool`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.registry = CollectorRegistry()
        self._evaluations = Counter(
            "kernel_env_evaluations",
            "Evaluations that were answered, by outcome.",
            ("outcome", "stage", "language"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "kernel_env_stage_seconds",
            "Seconds that an evaluation spent in a stage; queue is what it waited.",
            ("stage",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._abandoned = Counter(
            "kernel_env_evaluations_abandoned",
            "Evaluations whose client left or reset.",
            registry=self.registry,
        )
        self._busy = Counter(
            "kernel_env_device_busy_seconds",
            "Seconds that evaluations had a device to themselves; its rate is the utilization.",
            ("device",),
            registry=self.registry,
        )
        self._drift = Histogram(
            "kernel_env_baseline_ratio",
            "A reference's time over its first time on that device since the server started.",
            buckets=RATIOS,
            registry=self.registry,
        )
        self._baselines: dict[tuple[str, str], float] = {}

    async def start(self) -> None:
        await self._pool.start()

    async def ready(self, timeout_s: float) -> Device | None:
        return await self._pool.ready(timeout_s)

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        evaluation = None
        try:
            evaluation = await self._pool.evaluate(request)
            return evaluation
        finally:
            if evaluation is None:
                self._abandoned.inc()
            else:
                self._count(request, evaluation)

    async def stage(self, request_id: str) -> str:
        return await self._pool.stage(request_id)

    def health(self) -> dict[str, Any]:
        return self._pool.health()

    async def close(self) -> None:
        await self._pool.close()

    def _count(self, request: EvaluationRequest, evaluation: Evaluation) -> None:
        outcome, durations = evaluation.outcome, evaluation.durations
        self._evaluations.labels(outcome.kind, outcome.stage, request.language).inc()
        for stage, seconds in durations.items():
            self._seconds.labels(stage).observe(seconds)
        device = evaluation.device.uuid or evaluation.device.index
        self._busy.labels(device).inc(sum(durations.get(stage, 0.0) for stage in ON_THE_DEVICE))
        if isinstance(outcome, Passed) and outcome.timing is not None:
            key = (request.task.hash, device)
            first = self._baselines.get(key)
            if first is None and len(self._baselines) < BASELINES:
                self._baselines[key] = outcome.timing.ref_runtime_ms
            elif first:
                self._drift.observe(outcome.timing.ref_runtime_ms / first)


class Standing:
    """A collector: how the server stands at the moment of a scrape, by its `/health`."""

    def __init__(self, health: Callable[[], dict[str, Any]]) -> None:
        self._health = health

    def collect(self) -> Iterable[Metric]:
        told = self._health()
        yield _gauge("info", "The server's version.", {(__version__,): 1.0}, "version")
        yield _gauge("ready", "1 while a device can evaluate.", {(): float(told["state"] == "ready")})
        yield _gauge("queued", "Submissions that wait.", {(): told["queued"]})
        yield _gauge("running", "Devices that have a submission.", {(): told["running"]})
        sessions = {("active",): told["active_sessions"], ("parked",): told["parked_sessions"]}
        yield _gauge("sessions", "Sessions; parked ones wait for their client.", sessions, "state")
        yield _gauge("sessions_limit", "KERNEL_ENV_MAX_SESSIONS.", {(): told["max_sessions"]})
        yield from _devices(told["devices"])
        layers = {(name, layer["state"]): 1.0 for name, layer in told["sandbox"]["layers"].items()}
        yield _gauge("sandbox_layer", "The weakest state of each layer over devices.", layers, "layer", "state")


def _devices(devices: list[dict[str, Any]]) -> Iterable[Metric]:
    states = {}
    restarts = CounterMetricFamily(
        "kernel_env_worker_restarts", "Starts of a device's worker after its first.", labels=("device", "node")
    )
    for device in devices:
        name, node = str(device.get("uuid") or device.get("index", "")), str(device.get("node", ""))
        states[name, node, str(device.get("name") or ""), str(device.get("state"))] = 1.0
        restarts.add_metric((name, node), device.get("restarts", 0))
    yield _gauge("device", "1 for each device, by state; failed is out of use.", states, *DEVICE)
    yield restarts


DEVICE = ("device", "node", "model", "state")


def _gauge(name: str, text: str, values: Mapping[_Labels, float], *labels: str) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"kernel_env_{name}", text, labels=labels)
    for label, value in values.items():
        family.add_metric(label, value)
    return family


def exposition(registry: CollectorRegistry) -> bytes:
    return generate_latest(registry)
