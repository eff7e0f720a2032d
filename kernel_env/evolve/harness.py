"""The loop as one of openenv's harnesses: a trainer owns the sampling, this owns what is asked and submitted.

One growing conversation for each episode: the task, an answer, the environment's verdict, the next answer. No
function calling: the program is found in the answer, as everywhere here. Rewards are the environment's own, passed
on; none is made up, and submissions that were not judged carry none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_server.mcp_types import Tool
from openenv.core.harness import (
    HarnessAdapter,
    HarnessRolloutResult,
    HarnessRunLimits,
    Message,
    ModelStep,
    ModelStepResult,
    ResourceSession,
    ResourceSessionFactory,
    RolloutEvent,
    StepEnvSessionAdapter,
    ToolResult,
    ToolTraceEntry,
)
from openenv.core.llm_client import LLMResponse

from kernel_env.client import KernelEnv
from kernel_env.models import KernelAction, KernelObservation

from .chat import OpenAIChat
from .config import Language
from .errors import ConfigError
from .llm_config import LLMConfig
from .program import read_answer
from .prompts import SYSTEM
from .redact import Redactor

SUBMIT = "submit_kernel"
AGAIN = "Write a better version: state one new idea, then the whole program."
REPAIR = "Find the cause, say it in the idea line, and write the whole program without it."


class EvolveHarness(HarnessAdapter):
    """White box: a trainer's `model_step` samples. Black box: the model of `llm_config` does, for evaluation.

    `limits.max_turns` bounds the answers, the episode's own `max_turns` the submissions.
    """

    def __init__(self, llm_config: LLMConfig | None = None, submit: str = SUBMIT) -> None:
        self._llm_config = llm_config
        self._submit = submit

    def run_white_box(
        self, model_step: ModelStep, session: ResourceSession, limits: HarnessRunLimits | None = None
    ) -> HarnessRolloutResult:
        limits = limits or HarnessRunLimits()
        messages: list[Message] = list(session.initial_messages())
        result = HarnessRolloutResult()
        for turn in range(limits.max_turns):
            step = model_step(messages, session.list_tools(), dict(limits.sampling))
            _record(result, step, turn)
            messages.append({"role": "assistant", "content": step.response.content})
            told, done = self._played(session, step.response.content, result)
            result.done = done
            if done:
                break
            messages.append({"role": "user", "content": told})
        result.messages = messages
        result.metrics |= {"turns": turn + 1 if limits.max_turns else 0, "tool_calls": len(result.tool_trace)}
        return result

    def run_black_box(
        self, session: ResourceSession, limits: HarnessRunLimits | None = None
    ) -> HarnessRolloutResult:
        """Raises `ConfigError` without an `LLMConfig`, `EndpointError` where the endpoint fails."""
        if self._llm_config is None:
            raise ConfigError("a black-box rollout asks a model of its own: give EvolveHarness an LLMConfig")
        return self.run_white_box(_asking(self._llm_config), session, limits)

    def _played(self, session: ResourceSession, text: str, result: HarnessRolloutResult) -> tuple[str, bool]:
        """Submit the program of an answer; what to say about it, and whether the episode is done."""
        answer = read_answer(text, None)
        if answer.code is None:
            result.events.append(RolloutEvent("no_program", {"reason": answer.fault}))
            return f"{answer.fault} {AGAIN}", False
        found = self._submitted(session, answer.code, result)
        if found.metadata.get("infrastructure_fault"):
            # It used up no turn, and says nothing of the program.
            found = self._submitted(session, answer.code, result)
        data: Mapping[str, Any] = found.data if isinstance(found.data, dict) else {}
        said = str(found.error or data.get("feedback") or found.data)
        return f"{said}\n\n{AGAIN if data.get('correct') else REPAIR}", found.done

    def _submitted(self, session: ResourceSession, code: str, result: HarnessRolloutResult) -> ToolResult:
        found = session.call_tool(self._submit, {"code": code})
        result.tool_trace.append(ToolTraceEntry(self._submit, {"code": code}, found))
        result.events.append(RolloutEvent("tool_call", {"tool_name": self._submit, "done": found.done}))
        return found


class KernelSessionFactory(ResourceSessionFactory[StepEnvSessionAdapter]):
    """Episodes on a kernel_env server; `task` of `create` is a task's id, or None for the one of the seed."""

    def __init__(self, base_url: str, language: Language = "triton", token: str | None = None) -> None:
        self._base_url = base_url
        self._language = language
        self._token = token

    def create(
        self, task: Any = None, seed: int | None = None, episode_id: str | None = None
    ) -> StepEnvSessionAdapter:
        named = {"task_id": task} if isinstance(task, str) else {}
        return StepEnvSessionAdapter(
            KernelEnv(base_url=self._base_url, token=self._token),
            task=task,
            seed=seed,
            episode_id=episode_id,
            tool_specs=[_TOOL],
            action_builder=lambda name, arguments: KernelAction(code=str(arguments["code"])),
            initial_messages_builder=_opening,
            tool_result_builder=_tool_result,
            reset_kwargs={"language": self._language, **named},
        )


_TOOL = Tool(
    name=SUBMIT,
    description="Submit a complete program that defines ModelNew; it is checked, compared and timed.",
    input_schema={
        "type": "object",
        "properties": {"code": {"type": "string", "description": "Python source"}},
        "required": ["code"],
    },
)


def _opening(result: StepResult[KernelObservation], task: Any) -> list[Message]:
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": result.observation.problem},
    ]


def _tool_result(
    name: str, arguments: dict[str, Any], result: StepResult[KernelObservation], state: Any
) -> ToolResult:
    seen = result.observation
    data = {
        "stage": seen.stage,
        "feedback": seen.feedback,
        "correct": seen.correct,
        "speedup": seen.speedup,
        "reward": result.reward,
    }
    metadata = {"reward": result.reward, "infrastructure_fault": seen.infrastructure_fault}
    if seen.infrastructure_fault:
        # openenv wants a number in the observation; a trainer must not take it for a verdict.
        metadata["reward"] = data["reward"] = None
    return ToolResult(data=data, done=bool(result.done), metadata=metadata)


def _record(result: HarnessRolloutResult, step: ModelStepResult, turn: int) -> None:
    result.prompt_ids.extend(step.prompt_ids)
    result.completion_ids.extend(step.completion_ids)
    result.logprobs.extend(step.logprobs)
    result.events.append(RolloutEvent("model_response", {"turn": turn, "content": step.response.content}))


def _asking(config: LLMConfig) -> ModelStep:
    """Samples from the endpoint; the trainer's sampling options do not apply to it."""
    redact = Redactor(config.secrets())

    async def ask(messages: list[Message]) -> str:
        async with OpenAIChat(config, redact) as chat:
            return (await chat.complete(0, messages, lambda: True)).text

    def step(messages: list[Message], tools: list[Tool], sampling: dict[str, Any]) -> ModelStepResult:
        return ModelStepResult(LLMResponse(asyncio.run(ask(messages))))

    return step
