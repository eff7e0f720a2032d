"""Bring a process that runs a submission to the point where `forward` can be called.

Shared memory, import, constructor under the reference's seed, the reference's weights: the same steps for a
candidate and for the reference's twin. Nothing of the judge's goes over but what a submission may know.
"""

from __future__ import annotations

from .link import CandidateLink, Ended
from .mailbox import Mailbox
from .outcome import Infrastructure
from .reference import Reference
from .trials import settle


def construct(link: CandidateLink, reference: Reference, mailbox: Mailbox, timeout_s: float) -> str:
    """What differs from the reference in state, as a note for feedback; raises `Ended`."""
    link.greet()
    try:
        link.call("open", mailbox.region.fds, handle=mailbox.region.handle)
    except Ended as end:  # no line of the submission has run yet
        message = getattr(end.outcome, "message", "") or end.outcome.kind
        raise Ended(Infrastructure(message=f"the shared memory could not be opened: {message}")) from None
    link.enter("compile", timeout_s)
    link.call("import")
    mailbox.share_state()
    settle(reference.device)
    reply = link.call(
        "construct",
        seed=reference.seed,
        perturbed=reference.perturbed,
        gain=reference.gain,
        precision=reference.precision,
        arguments=reference.pickled_arguments(),
        state={name: slot.to_json() for name, slot in mailbox.state.items()},
    )
    problems = reply.get("state")
    if not isinstance(problems, list) or not problems:
        return ""
    listed = "; ".join(str(problem)[:200] for problem in problems[:8])
    return f"The reference's weights could not be copied over: ModelNew has {listed}"
