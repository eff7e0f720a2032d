"""Bring a process that runs a submission to the point where `forward` can be called.

Import, constructor under the reference's seed, shared memory, the reference's weights: the same steps for a
candidate and for the reference's twin. Nothing of the judge's goes over but what a submission may know. Judge,
candidate and twin may construct at once, as that takes long for large models; the twin gets the weights while the
candidate is stopped, which can write where they lie.
"""

from __future__ import annotations

from typing import Any

from . import hardware
from .link import CandidateLink, Ended, TwinLink
from .mailbox import Mailbox
from .outcome import Infrastructure
from .reference import Reference
from .trials import settle


class Construction:
    """Of one process's model, which has been greeted. Raises `Ended`."""

    def __init__(self, link: CandidateLink, reference: Reference, timeout_s: float) -> None:
        """Begins it; at the end the constructor is running."""
        self._link = link
        self._reference = reference
        link.enter("compile", timeout_s)
        link.call("import")
        link.begin("construct", **self._asked())

    def _asked(self) -> dict[str, Any]:
        reference = self._reference
        return {
            "seed": reference.seed,
            "perturbed": reference.perturbed,
            "gain": reference.gain,
            "precision": reference.precision,
            "arguments": reference.pickled_arguments(),
        }

    def finish(self, mailbox: Mailbox, beside: TwinLink | None = None) -> str:
        """Hand the weights over; what differs from the reference in state, as a note for feedback."""
        self._constructed()
        mailbox.share_state()
        settle(self._reference.device)
        _open(self._link, mailbox, beside)
        state = {name: slot.to_json() for name, slot in mailbox.state.items()}
        problems = self._link.call("adopt", state=state).get("state")
        if not isinstance(problems, list) or not problems:
            return ""
        listed = "; ".join(str(problem)[:200] for problem in problems[:8])
        return f"The reference's weights could not be copied over: ModelNew has {listed}"

    def _constructed(self) -> None:
        """One that lacked memory gets another try: the judge may have held much beside it, for a while."""
        try:
            self._link.finish()
        except Ended as end:
            if end.outcome.kind != "out_of_memory":
                raise
            settle(self._reference.device, hardware.memory_bytes(self._reference.device))
            self._link.call("construct", **self._asked())


def _open(link: CandidateLink, mailbox: Mailbox, beside: TwinLink | None) -> None:
    """Whose fault is it, if the shared memory can't be opened? A process that ran no submission tells.

    Without one it is the submission's: there is one wherever memory is a device's.
    """
    try:
        link.call("open", mailbox.region.fds, handle=mailbox.region.handle)
    except Ended as end:
        if beside is not None:
            _open(beside, mailbox, None)
        if not isinstance(link, TwinLink):
            raise
        message = getattr(end.outcome, "message", "") or end.outcome.kind
        fault = Infrastructure(message=f"the shared memory could not be opened: {message}")
        raise Ended(fault, lacking=True) from None  # a submission may have left none to open it with


def construct(link: CandidateLink, reference: Reference, mailbox: Mailbox, timeout_s: float) -> str:
    """From the greeting to the end, by itself."""
    link.greet()
    return Construction(link, reference, timeout_s).finish(mailbox)
