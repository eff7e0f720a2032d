"""The second baseline: the reference under `torch.compile`, measured beside the eager one when it is asked for.

Compiling takes long, so what was measured for a task is kept for its next submissions: how many times as fast as
the eager reference the compiled one is. It stands for as long as the eager reference takes what it took then, and
is measured again when that has drifted. A reference that can't be compiled has no such baseline and says why; no
submission suffers from that.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from .link import Ended
from .outcome import Infrastructure, Timing

DRIFT = 0.02
KEPT = 512
REASON_CAP = 300


@dataclass(frozen=True)
class Compiled:
    """`ratio` is eager over compiled time, measured when eager took `eager_ms`; without it, `reason` says why.

    `lost`: a fault that says nothing of the task, so that the next submission tries again.
    """

    eager_ms: float
    ratio: float | None
    reason: str = ""
    lost: bool = False


class Baselines:
    """Of one device, by task; the oldest make room for new ones."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Compiled] = OrderedDict()

    def beside(
        self, task_hash: str, timing: Timing, measure: Callable[[], Timing], shortened: bool = False
    ) -> tuple[Timing, str]:
        """`timing` with the compiled reference's time, and a note; `measure` times compiled against eager.

        What `measure` could not do in a `shortened` time says nothing of the task.
        """
        found = self._known.pop(task_hash, None)
        if found is None or abs(found.eager_ms - timing.ref_runtime_ms) > DRIFT * found.eager_ms:
            found = _measured(measure, timing.ref_runtime_ms, shortened)
        if not found.lost:
            self._known[task_hash] = found
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        if found.ratio is None:
            return timing, f"No torch.compile baseline: {found.reason}"
        return timing.model_copy(update={"compiled_ms": timing.ref_runtime_ms / found.ratio}), ""


def _measured(measure: Callable[[], Timing], eager_ms: float, shortened: bool) -> Compiled:
    try:
        return Compiled(eager_ms, measure().speedup)
    except Ended as end:
        message = getattr(end.outcome, "message", "") or end.outcome.kind
        lost = shortened or (isinstance(end.outcome, Infrastructure) and end.outcome.retryable)
        return Compiled(eager_ms, None, message[:REASON_CAP], lost)
