"""Task sources, splits, picks and faults. Needs neither torch, network nor a KernelBench checkout."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_env.server.config import Settings
from kernel_env.server.task_sources import SourceError, hub
from kernel_env.server.tasks import (
    BrokenTaskError,
    DuplicateTaskError,
    SplitError,
    TaskError,
    TaskSet,
    UnknownTaskError,
    split_of,
)

SOURCE = """
class Model:
    pass

def get_inputs():
    return []

def get_init_inputs():
    return []
"""
CHECKOUT = Path(__file__).parent.parent / ".kb" / "KernelBench"


def write(folder: Path, **tasks: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in tasks.items():
        (folder / f"{name.lstrip('_')}.py").write_text(source)
    return folder


def load(*sources: str | Path, kernelbench_dir: Path | None = None) -> TaskSet:
    return TaskSet.load(Settings(tasks=tuple(map(str, sources)), kernelbench_dir=kernelbench_dir))


def checkout(root: Path) -> Path:
    """A folder like KernelBench's."""
    write(root / "level1", _1_First=SOURCE, _2_Second=SOURCE, _10_Tenth=SOURCE)
    write(root / "level2", _1_Chain=SOURCE)
    write(root / "changelog", notes="no task")
    return root


def test_ids_are_in_natural_order_and_sources_combine(tmp_path: Path) -> None:
    tasks = load("embedded", "kernelbench", kernelbench_dir=checkout(tmp_path))
    ids = tasks.ids()
    assert ids[:3] == ("level1/1_First", "level1/2_Second", "level1/10_Tenth")
    assert ids.index("level1/e02_SiLU") < ids.index("level1/e10_BatchedMatMul") < ids.index("level2/1_Chain")
    assert not any("notes" in task_id for task_id in ids)


def test_a_task_carries_its_text_and_hash(tmp_path: Path) -> None:
    task = load("kernelbench", kernelbench_dir=checkout(tmp_path)).get("level2/1_Chain")
    assert (task.level, task.name, task.source, task.fault) == (2, "1_Chain", SOURCE, None)
    assert task.hash == hashlib.sha256(SOURCE.encode()).hexdigest()[:16]
    assert task.origin == str(tmp_path / "level2" / "1_Chain.py")


def test_a_users_file_or_folder(tmp_path: Path) -> None:
    folder = write(tmp_path / "mine", swish=SOURCE)
    write(folder / "deep" / "level3" / "more", block=SOURCE)
    write(folder / ".hidden", hidden=SOURCE)
    assert load(folder).ids() == ("user/swish", "level3/block")
    assert load(folder / "swish.py").get("user/swish").level == 0
    assert load(folder / "deep" / "level3").ids() == ("level3/block",)


def test_level_folders_above_the_named_folder_do_not_count(tmp_path: Path) -> None:
    folder = write(tmp_path / "level7" / "project", swish=SOURCE)
    assert load(folder).ids() == ("user/swish",)


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("def broken(:", "does not parse: invalid syntax (line 1)"),
        (SOURCE.replace("class Model", "class Net"), "lacks class Model"),
        (SOURCE.replace("get_inputs", "inputs"), "lacks function get_inputs"),
        ("x = 1", "lacks class Model, function get_inputs, function get_init_inputs"),
        ("(" * 5000, "does not parse"),
        ("x = '\0'", "does not parse"),
        ("#" * (2 << 20), "is larger than"),
        ("raise SystemExit", "lacks class Model"),
    ],
)
def test_a_broken_file_is_listed_and_the_others_work(tmp_path: Path, source: str, fault: str) -> None:
    tasks = load(write(tmp_path / "mine", good=SOURCE, bad=source))
    assert tasks.ids() == ("user/good",)
    assert [task.id for task in tasks.all()] == ["user/bad", "user/good"]
    assert fault in (tasks.all()[0].fault or "")
    with pytest.raises(BrokenTaskError, match="'user/bad' is broken: "):
        tasks.get("user/bad")


def test_a_file_that_is_not_utf8_is_broken(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"# caf\xe9\n" + SOURCE.encode())
    assert load(tmp_path).all()[0].fault == "is not UTF-8 (byte 5)"


def test_definitions_under_a_condition_and_odd_escapes_are_fine(tmp_path: Path) -> None:
    indented = "if True:\n    x = '\\d'" + SOURCE.replace("\n", "\n    ")
    assert load(write(tmp_path, task=indented)).ids() == ("user/task",)


def test_faults_found_later_can_be_added(tmp_path: Path) -> None:
    tasks = load(write(tmp_path, one=SOURCE, two=SOURCE)).with_faults({"user/one": "too large", "user/x": "?"})
    assert tasks.ids() == ("user/two",)
    with pytest.raises(BrokenTaskError, match="too large"):
        tasks.get("user/one")


def test_two_tasks_of_one_id_name_both_origins(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a", swish=SOURCE), write(tmp_path / "b", swish=SOURCE)
    with pytest.raises(DuplicateTaskError) as error:
        load(one, two)
    assert str(one / "swish.py") in str(error.value)
    assert str(two / "swish.py") in str(error.value)


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("level1/e01_RowSoftMax", "did you mean level1/e01_RowSoftmax"),
        ("e02_silu", "did you mean level1/e02_SiLU"),
        ("level1/e01", "did you mean level1/e01_RowSoftmax"),
        ("e15", "did you mean level1/e15_"),
        ("", "kernel-env tasks list"),
        ("\ud800" * 1000, "kernel-env tasks list"),
    ],
)
def test_an_unknown_task_is_answered_with_close_ones(wanted: str, hint: str) -> None:
    with pytest.raises(UnknownTaskError) as error:
        load("embedded").get(wanted)
    assert hint in str(error.value)
    assert len(str(error.value).encode()) < 1000


def test_a_seed_picks_the_same_task_anywhere(tmp_path: Path) -> None:
    tasks = load(write(tmp_path / "level1", **{f"_{n}_X": SOURCE for n in range(1, 21)}))
    assert [tasks.pick(seed, "train").name for seed in range(4)] == ["18_X", "16_X", "20_X", "5_X"]
    assert {tasks.pick(seed, "train").id for seed in range(400)} == set(tasks.ids("train"))
    assert {tasks.pick(None, "eval").split for _ in range(5)} == {"eval"}


def test_an_added_task_changes_no_pick_but_its_own(tmp_path: Path) -> None:
    before, after = load("embedded"), load("embedded", write(tmp_path, extra=SOURCE))
    changed = {after.pick(s, "train").id for s in range(200) if after.pick(s, "train") != before.pick(s, "train")}
    assert changed <= {"user/extra"}


def test_splits_are_stable_and_stratified(tmp_path: Path) -> None:
    embedded = load("embedded")
    assert {embedded.get(task_id).split for task_id in embedded.ids("eval")} == {"eval"}
    assert sorted(embedded.ids("train") + embedded.ids("eval")) == sorted(embedded.ids())
    both = load("embedded", "kernelbench", kernelbench_dir=checkout(tmp_path))
    assert set(embedded.ids("eval")) <= set(both.ids("eval"))
    for level in (1, 2, 3):
        splits = [task.split for task in embedded.all() if task.level == level]
        assert 0.1 <= splits.count("eval") / len(splits) <= 0.3


def test_every_block_of_five_numbers_has_one_eval_task() -> None:
    for level in range(1, 40):
        for prefix in ("", "e"):
            for start in (1, 6, 11, 96):
                block = [split_of(f"level{level}/{prefix}{n}_Name") for n in range(start, start + 5)]
                assert block.count("eval") == 1
    places = [n for level in range(500) for n in range(1, 6) if split_of(f"level{level}/{n}_X") == "eval"]
    assert all(60 < places.count(n) < 140 for n in range(1, 6))


def test_ids_without_a_number_are_split_by_hash() -> None:
    splits = [split_of(f"user/task{'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10]}_x") for n in range(100)]
    assert 10 <= splits.count("eval") <= 30


def test_splits_that_do_not_exist_or_are_empty(tmp_path: Path) -> None:
    tasks = load(write(tmp_path / "level1", **{f"_{n}_X": SOURCE for n in range(1, 6)}))
    with pytest.raises(SplitError, match="unknown split 'test'; use one of: train, eval"):
        tasks.pick(0, "test")
    only = load(write(tmp_path / "one", swish=SOURCE))
    missing = "train" if only.ids("eval") else "eval"
    with pytest.raises(SplitError, match=f"'{missing}' holds no usable task of this task set; use "):
        only.pick(0, missing)
    with pytest.raises(SplitError, match="no usable task at all"):
        load(write(tmp_path / "bad", broken="x")).pick(None, "train")


def test_the_digest_follows_ids_and_texts(tmp_path: Path) -> None:
    first = load(write(tmp_path, one=SOURCE)).digest
    assert first == load(tmp_path).digest
    assert len(first) == 16
    assert first != load(write(tmp_path, one=SOURCE + "\n")).digest


@pytest.mark.parametrize(
    ("sources", "says"),
    [
        (("kernelbench",), "needs KERNELBENCH_DIR"),
        (("/nowhere/at/all",), "check KERNEL_ENV_TASKS"),
        ((), "KERNEL_ENV_TASKS=embedded"),
    ],
)
def test_a_source_that_cannot_be_read_says_what_to_do(sources: tuple[str, ...], says: str) -> None:
    with pytest.raises(SourceError, match=says):
        load(*sources)


def test_a_wrong_kernelbench_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not a folder"):
        load("kernelbench", kernelbench_dir=tmp_path / "gone")
    with pytest.raises(SourceError, match="has no level1"):
        load("kernelbench", kernelbench_dir=tmp_path)
    inner = checkout(tmp_path / "KernelBench")
    with pytest.raises(SourceError, match=f"did you mean {inner}"):
        load("kernelbench", kernelbench_dir=tmp_path)
    with pytest.raises(SourceError, match="holds no task file"):
        load(write(tmp_path / "empty"))


@pytest.mark.skipif(not CHECKOUT.is_dir(), reason="no KernelBench checkout in .kb/")
def test_a_real_checkout_loads_whole() -> None:
    tasks = load("embedded", "kernelbench", kernelbench_dir=CHECKOUT)
    assert not [task for task in tasks.all() if task.fault]
    assert tasks.get("level1/19_ReLU").level == 1
    for level in (1, 2, 3, 4):
        assert {task.split for task in tasks.all() if task.level == level} == {"train", "eval"}


def test_dataset_rows_become_the_ids_of_a_checkout() -> None:
    row = {"code": SOURCE, "level": 1, "name": "19_ReLU", "problem_id": 19}
    (text,) = hub.rows([row])
    assert (text.id, text.level, text.name, text.source) == ("level1/19_ReLU", 1, "19_ReLU", SOURCE)
    with pytest.raises(SourceError, match="lacks code, level or name"):
        hub.rows([{"code": SOURCE, "name": "19_ReLU"}])


def test_dataset_files_are_taken_by_level(tmp_path: Path) -> None:
    names = [f"level_{level}-0000{part}-of-00002.parquet" for level in (2, 1, 4, 3) for part in (1, 0)]
    (tmp_path / "data").mkdir()
    for name in [*names, "readme.txt"]:
        (tmp_path / "data" / name).touch()
    assert [file.name for file in hub.pick_files(tmp_path)] == sorted(names)
    (tmp_path / "data" / names[0]).unlink()
    (tmp_path / "data" / names[1]).unlink()
    with pytest.raises(SourceError, match="lacks level 2"):
        hub.pick_files(tmp_path)


def test_the_dataset_is_read_from_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    columns = {"code": [SOURCE], "level": [1], "name": ["19_ReLU"], "problem_id": [19]}
    file = tmp_path / "level_1-00000-of-00001.parquet"
    parquet.write_table(pyarrow.table(columns), file)
    assert [text.id for text in hub.read_files([file])] == ["level1/19_ReLU"]


def test_the_dataset_out_of_reach_says_what_to_do(tmp_path: Path) -> None:
    code = (
        "from kernel_env.server.config import Settings\n"
        "from kernel_env.server.tasks import TaskSet, TaskError\n"
        "try:\n    TaskSet.load(Settings(tasks=('huggingface',)))\n"
        "except TaskError as error:\n    print(error)\n"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_ENDPOINT": "http://127.0.0.1:1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    wanted = "set KERNELBENCH_DIR" if importlib.util.find_spec("pyarrow") else "pip install pyarrow"
    assert wanted in done.stdout


def test_tasks_never_import_torch_nor_openenv() -> None:
    code = (
        "import sys\n"
        "from kernel_env.server.config import Settings\n"
        "from kernel_env.server.tasks import TaskSet\n"
        "from kernel_env.server.problem import problem_text\n"
        "tasks = TaskSet.load(Settings())\n"
        "problem_text(tasks.get(tasks.ids()[0]), 'triton', Settings(), None)\n"
        "print(sorted({'torch', 'openenv', 'gradio', 'huggingface_hub'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_every_error_is_a_task_error() -> None:
    kinds = (BrokenTaskError, DuplicateTaskError, SourceError, SplitError, UnknownTaskError)
    assert all(issubclass(kind, TaskError) for kind in kinds)
