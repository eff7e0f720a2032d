"""What a model reads of an exception or a build log."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel_env.server.trace import LIMIT, clip, compiler_errors, describe


def failing(tmp_path: Path, source: str) -> str:
    path = tmp_path / "submission.py"
    path.write_text(source)
    try:
        exec(compile(source, str(path), "exec"), {})
    except BaseException as error:
        return describe(error, str(path))
    raise AssertionError("did not fail")


def test_own_lines_are_named_and_paths_are_not(tmp_path: Path) -> None:
    text = failing(tmp_path, "def forward():\n    open('/no/such/folder/file.bin')\n\nforward()\n")
    assert text.startswith("FileNotFoundError: ")
    assert "line 2, in forward: open(" in text
    assert "line 4, in <module>: forward()" in text
    assert str(tmp_path) not in text
    assert "/no/such/folder/file.bin" not in text.splitlines()[0]


def test_a_syntax_error_shows_its_place(tmp_path: Path) -> None:
    text = failing(tmp_path, "a = 1\nb = (2\n")
    assert "line 2" in text
    assert "    b = (2" in text


def test_hostile_exceptions_are_described(tmp_path: Path) -> None:
    source = "class Bad(Exception):\n    def __str__(self): raise ValueError\nraise Bad\n"
    assert failing(tmp_path, source).startswith("Bad: (the exception's text could not be read)")
    assert len(failing(tmp_path, "raise ValueError('x' * 10**7)\n")) < LIMIT + 100


@pytest.mark.parametrize(
    ("log", "kept", "dropped"),
    [
        (
            "[1/2] c++ -isystem /a/b main.cpp\nFAILED: main.o\nmain.cpp:3:1: error: no\n  3 | x\n",
            "main.cpp:3:1: error: no",
            "isystem",
        ),
        ('k.cu(7): error: identifier "q" is undefined\n', "k.cu(7): error", "zzz"),
        ("main.o: in function f\nundefined reference to `g'\n", "undefined reference to `g'", "in function f"),
    ],
)
def test_a_build_log_is_cut_to_its_errors(log: str, kept: str, dropped: str) -> None:
    text = compiler_errors(log)
    assert kept in text
    assert dropped not in text


def test_clip_says_how_much_it_cut() -> None:
    assert clip("short") == "short"
    assert "9900 characters cut" in clip("x" * 10_000, 100)
