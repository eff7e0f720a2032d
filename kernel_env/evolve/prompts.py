"""What the model is told: the environment's own description of the task, a program with its verdict, a request.

Each candidate is one conversation of one question, so that nothing depends on what was said before. The verdict
is passed on as the environment words it: it tells what is wrong and how fast the program is, never how it is
checked beyond what the task's rules say.
"""

from __future__ import annotations

from .chat import Message
from .config import Language
from .tree import Node, Proposal, Tree

TRIED = 8
FEEDBACK_CAP = 6000

SYSTEM = (
    "You write fast, correct kernels. Answer with one line `Idea: ...` that says in one sentence what you do and"
    " why it helps, then exactly one Markdown code block with the complete program, which defines `class"
    " ModelNew`. Write the whole program every time, no fragments and no placeholders."
)


def own_problem(initial_code: str, language: Language) -> str:
    """The task, for an evaluator that has no text for it."""
    from kernel_env.server import languages

    brief = languages.get(language).brief
    return (
        "Rewrite the PyTorch module `Model` below as `ModelNew`: the same constructor and `forward` arguments, the"
        " same outputs, faster.\n\n"
        f"```python\n{initial_code.strip()}\n```\n\n"
        f"Use {brief}. All arithmetic of `forward` belongs in your own kernels. Each call must"
        " compute its outputs from its inputs."
    )


def messages_for(number: int, proposal: Proposal, tree: Tree, problem: str) -> list[Message]:
    """The conversation that asks for candidate `number`."""
    parts = [problem]
    if proposal.parent is None:
        parts.append(_draft(number))
    else:
        parts += _version(proposal, tree)
    parts.append(f"(Candidate {number}.)")
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "\n\n".join(parts)}]


def _draft(number: int) -> str:
    plain = "Write a first version: correct before fast, but with a sound plan for the memory traffic."
    other = "Write a version of your own; choose another approach than the most obvious one."
    return f"## Your turn\n\n{plain if number == 0 else other}"


def _version(proposal: Proposal, tree: Tree) -> list[str]:
    assert proposal.parent is not None
    parent = tree.nodes[proposal.parent]
    parts = [f"## A program so far\n\n{_program(parent)}", f"### Its verdict\n\n{verdict(parent)}"]
    for other in proposal.others:
        node = tree.nodes[other]
        parts.append(f"## Another program, for ideas\n\n{_program(node)}\n\n{verdict(node)}")
    tried = _tried(tree, parent)
    if tried:
        parts.append(f"## Tried on it already\n\n{tried}")
    if proposal.role == "repair":
        parts.append(
            "## Your turn\n\nFind the cause of the failure, say it in the idea line, and write the program without"
            " it. Change nothing else."
        )
    else:
        parts.append(
            "## Your turn\n\nWrite a faster version of the first program, which stays correct. State one idea that"
            f" is not among those tried. A direction to think in: {proposal.direction}."
        )
    return parts


def _program(node: Node) -> str:
    if node.code is None:
        return "(The answer held no complete program.)"
    fence = "`" * (4 if "```" in node.code else 3)
    return f"{fence}python\n{node.code.strip()}\n{fence}"


def verdict(node: Node) -> str:
    """What the evaluator said, of the measurement that counts."""
    said = (node.confirmations[-1].feedback if node.confirmations else "") or node.feedback
    if not said and node.score:
        said = f"Correct. Speedup {node.score:.3g}x over the reference."
    return f"Stage reached: {node.stage}.\n{said[:FEEDBACK_CAP]}".strip()


def _tried(tree: Tree, parent: Node) -> str:
    """Ideas of the parent's other children and how they went, the newest last."""
    lines = []
    for child in tree.children(parent.id)[-TRIED:]:
        if child.duplicate_of is not None:
            result = "the same program as before"
        elif child.score is None:
            result = f"failed at {child.stage}"
        else:
            result = f"{child.score:.3g}x" if child.score else "correct, not timed"
        lines.append(f"- {child.idea or 'no idea stated'}: {result}")
    return "\n".join(lines)
