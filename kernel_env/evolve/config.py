"""The settings of a run: one YAML file, one object, the same through command line and Python.

Frozen and validated once; behaviour elsewhere never parses anything. Unknown keys are refused with the nearest
known one. `${NAME}` in a text is the environment variable of that name. Keys of endpoints are never settings:
`api_key_env` names the variable that holds one.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from .errors import ConfigError

StrategyName = Literal["refine", "best_of_n", "beam", "islands"]
Language = Annotated[str, AfterValidator(lambda name: known_language(name))]
Count = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(gt=0.0)]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def known_language(name: str) -> str:
    """`name` itself; raises `LanguageError`, a `ValueError`, which names the valid choices."""
    from kernel_env.server import languages

    return languages.get(name).name


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class Llm(Section):
    """`options` holds client and sampling options by their own names; see `LLMConfig`."""

    model_class: str = "OpenAIChatClient"
    model_name: str = ""
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    headers: dict[str, str] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)


class Search(Section):
    """What the tree follows from, with the answers and evaluations: a run is resumed with the same.

    `drafts` are asked independently first. `width` is how many candidates a round of `refine` has, how many
    programs `beam` keeps, and how many `islands` there are. `beam` makes `branch` candidates of each program kept;
    islands exchange their best every `migrate_every` rounds. The best is measured again when `remeasure` further
    candidates are settled (0: never).
    """

    strategy: StrategyName = "refine"
    seed: Annotated[int, Field(ge=0)] = 0
    drafts: Count = 4
    width: Annotated[int, Field(ge=1, le=32)] = 4
    branch: Annotated[int, Field(ge=1, le=8)] = 2
    migrate_every: Count = 3
    repairs: Annotated[int, Field(ge=0)] = 3
    remeasure: Annotated[int, Field(ge=0)] = 8


class Budget(Section):
    """Limits; None is no limit. Evaluations include those that confirm: two is the least that finds anything."""

    evaluations: Annotated[int, Field(ge=2)] | None = 40
    calls: Count | None = None
    tokens: Count | None = None
    usd: Amount | None = None
    gpu_seconds: Amount | None = None
    wall_seconds: Amount | None = None


class Stop(Section):
    """Ends before the budget does: at a confirmed speedup, a share of the roofline, after `patience` candidates in
    a row that brought no new best, or `stale` ones that brought no new program."""

    target_speedup: Amount | None = None
    roofline: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    patience: Count | None = None
    stale: Count | None = 16


class Parallel(Section):
    """How many calls and evaluations run at one time; `evaluation_timeout_s` bounds one from this side."""

    llm: Annotated[int, Field(ge=1, le=64)] = 4
    evaluations: Annotated[int, Field(ge=1, le=64)] = 1
    evaluation_timeout_s: Amount = 1800.0


class Evaluator(Section):
    """A running server by `url`, or workers of our own of the given `kind`."""

    language: Language = "triton"
    kind: Literal["auto", "gpu", "cpu", "mock"] = "auto"
    url: str | None = None
    token_env: str = "KERNEL_ENV_TOKEN"


class Price(Section):
    """US dollars for a million tokens."""

    input: Annotated[float, Field(ge=0.0)]
    output: Annotated[float, Field(ge=0.0)]


class EvolveConfig(Section):
    """Everything that a run can be told. `prices` are by model name."""

    llm: Llm = Field(default_factory=Llm)
    search: Search = Field(default_factory=Search)
    budget: Budget = Field(default_factory=Budget)
    stop: Stop = Field(default_factory=Stop)
    parallel: Parallel = Field(default_factory=Parallel)
    evaluator: Evaluator = Field(default_factory=Evaluator)
    prices: dict[str, Price] = Field(default_factory=dict)

    @classmethod
    def load(cls, file: Path | None = None, overrides: Iterable[str] = ()) -> EvolveConfig:
        """From a YAML file and `a.b=c` on top, values in YAML's notation. Raises `ConfigError`."""
        found = _read(file) if file is not None else {}
        for text in overrides:
            _override(found, text)
        return cls.parse(_expanded(found))

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> EvolveConfig:
        """Raises `ConfigError`, which names the key and, for one that is unknown, the nearest known one."""
        try:
            return cls.model_validate(found)
        except ValidationError as error:
            raise ConfigError("; ".join(_told(dict(fault)) for fault in error.errors())) from None

    def to_yaml(self) -> str:
        return str(yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False))


def _read(file: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {file}: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{file} is not valid YAML: {error}") from error
    if not isinstance(found, dict | None):
        raise ConfigError(f"{file} holds no mapping of settings")
    return found or {}


def _override(found: dict[str, Any], text: str) -> None:
    path, equals, value = text.partition("=")
    names = [name.strip() for name in path.split(".")]
    if not equals or not all(names):
        raise ConfigError(f"{text!r} is no setting; write section.name=value, such as budget.evaluations=20")
    try:
        parsed = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"the value of {text!r} is not valid YAML") from error
    for name in names[:-1]:
        inner = found.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{text!r}: {name} is no section")
        found = inner
    found[names[-1]] = parsed


def _expanded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _expanded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_expanded(item) for item in value]
    return _VARIABLE.sub(_variable, value) if isinstance(value, str) else value


def _variable(match: re.Match[str]) -> str:
    name = match[1]
    if name not in os.environ:
        raise ConfigError(f"the settings name ${{{name}}}, but no environment variable {name} is set")
    return os.environ[name]


def _told(fault: dict[str, Any]) -> str:
    path = [str(part) for part in fault["loc"]]
    where = ".".join(path)
    if fault["type"] != "extra_forbidden":
        return f"{where}: {fault['msg']}"
    known = _names(path[:-1])
    close = difflib.get_close_matches(path[-1], known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(known)}"
    return f"unknown setting {where}; {hint}"


def _names(path: list[str]) -> list[str]:
    section: Any = EvolveConfig
    for name in path:
        section = section.model_fields[name].annotation
        if not (isinstance(section, type) and issubclass(section, BaseModel)):
            return list(Price.model_fields)
    return list(section.model_fields)
