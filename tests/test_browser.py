"""The page by clicks in headless Chromium, against real servers. Skipped where Playwright or a browser is missing.

`make test-browser` installs Playwright; the browser is the system's own, on the path.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import Launch
from .serving import CODE, Server, scripted

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: make test-browser")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the path")

QUIET = ("no-first-run", "disable-background-networking", "disable-component-update", "disable-sync")
TASK = "level2/e02_PolynomialActivation"
expect = playwright.expect
expect.set_options(timeout=20_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        switches = [f"--{name}" for name in ("no-sandbox", "disable-gpu", *QUIET)]
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=switches)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page in a profile of its own; it may neither complain nor ask anybody else."""
    yield from opened(browser)


def opened(browser: Any, **options: Any) -> Iterator[Any]:
    context = browser.new_context(**options)
    page = context.new_page()
    complaints: list[str] = []
    hosts: set[str] = set()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
    page.on("request", lambda request: hosts.add(re.sub(r"^\w+://([^/:]*).*", r"\1", request.url)))
    yield page
    context.close()
    assert [line for line in complaints if "401" not in line] == []
    assert hosts == {"127.0.0.1"}


@pytest.fixture(scope="module")
def mock(launch: Launch) -> Server:
    return launch(KERNEL_ENV_PEAKS="tf32=100,half=200,bandwidth=1000", KERNEL_ENV_PROFILE="1")


@pytest.fixture(scope="module")
def told(launch: Launch) -> Server:
    """Does what a submission's first line says."""
    return launch(scripted=True)


def begin(page: Any, url: str, task: str = TASK, language: str = "triton") -> None:
    page.goto(url)
    expect(page.get_by_role("status").first).to_contain_text("ready")
    page.get_by_role("searchbox", name="Find").fill(task.rpartition("_")[2].lower())
    page.get_by_role("combobox", name="Task").select_option(task)
    page.get_by_role("combobox", name="Language").select_option(language)
    page.get_by_role("button", name="Begin").click()
    expect(page.locator("#problem pre").first).to_contain_text("class Model(")


def submit(page: Any, code: str) -> None:
    page.get_by_label("Source text that defines").fill(code)
    page.get_by_role("button", name="Evaluate").click()


def table(page: Any, name: str) -> Any:
    return page.get_by_role("table", name=name)


def test_from_a_task_to_a_verdict(mock: Server, page: Any) -> None:
    begin(page, mock.url)
    page.get_by_role("button", name="Insert an example").click()
    page.get_by_role("button", name="Evaluate").click()
    expect(page.locator("#now")).to_have_text(re.compile(r"Passed, \S+ times as fast .* The times are made up\."))
    expect(page.get_by_label("Feedback")).to_contain_text("mock")
    stages = page.get_by_role("list", name="Stages").get_by_role("listitem")
    expect(stages.filter(has_text="static checks")).to_have_text(re.compile(r"\d\.\d\d s\s*done"))
    expect(stages.filter(has_text="timing")).to_contain_text("not done here")
    expect(table(page, "Measured")).to_contain_text(re.compile(r"speedup\s*\S+ \(95 %: \S+ to \S+\)"))
    expect(table(page, "Measured")).to_contain_text(re.compile(r"share of the limit\s*\S+ %"))
    expect(table(page, "Kernels of one call")).to_contain_text("polynomial")
    expect(page.get_by_role("img", name="95 % interval")).to_be_visible()
    expect(page.get_by_role("img", name="of the device's limit for this task")).to_be_visible()
    expect(table(page, "This episode")).to_contain_text(re.compile(r"1\s*passed"))
    expect(table(page, "Recent evaluations").get_by_role("row").nth(1)).to_contain_text(f"{TASK}, triton")
    expect(table(page, "Devices")).to_contain_text("mock")


def test_an_episode_ends_and_another_begins(mock: Server, page: Any) -> None:
    begin(page, mock.url)
    for number in range(1, 5):
        submit(page, f"x = {number}")
        expect(page.locator("#now")).to_have_text("Failed: format. Reward 0. The times are made up.")
        expect(table(page, "This episode").get_by_role("row")).to_have_count(number + 1)
    expect(page.get_by_text("The episode is done: begin another.")).to_be_visible()
    expect(page.get_by_role("button", name="Evaluate")).to_be_disabled()
    mock.wait_for(5.0, active_sessions=0)
    page.get_by_role("button", name="edit submission 2").click()
    expect(page.get_by_label("Source text that defines")).to_have_value("x = 2")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_text("0 of 4 submissions used")).to_be_visible()
    expect(page.get_by_role("button", name="Evaluate")).to_be_enabled()


def test_what_others_wrote_is_text_alone(mock: Server, page: Any) -> None:
    begin(page, mock.url)
    submit(page, "x = (<img src=x onerror=alert(1)>")
    expect(page.get_by_label("Feedback")).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.locator("img:not([role])")).to_have_count(0)


def test_stages_are_shown_while_it_runs(told: Server, page: Any) -> None:
    begin(page, told.url)
    submit(page, scripted(sleep=2.0, stage="correctness"))
    expect(page.locator("#now")).to_have_text("Running: correctness")
    stages = page.get_by_role("list", name="Stages").get_by_role("listitem")
    expect(stages.filter(has_text="build")).to_contain_text("done")
    expect(stages.filter(has_text="correctness")).to_contain_text("now")
    expect(page.get_by_role("button", name="Evaluate")).to_be_disabled()
    expect(page.locator("#now")).to_contain_text("Passed")


def test_an_evaluation_is_stopped(told: Server, page: Any) -> None:
    cancelled = told.counts()["cancelled"]
    begin(page, told.url)
    submit(page, scripted(sleep=60.0, stage="build"))
    expect(page.locator("#now")).to_have_text("Running: build")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#now")).to_have_text("Stopped: this submission does not count.")
    told.wait_for_count(5.0, "cancelled", cancelled + 1)
    submit(page, scripted(speedup=2.0))
    expect(page.locator("#now")).to_contain_text("Passed, 2 times as fast")
    expect(page.get_by_text("1 of 4 submissions used")).to_be_visible()


def test_a_dropped_connection_is_taken_up_again(told: Server, page: Any) -> None:
    opened: list[str] = []

    def pass_on(route: Any) -> None:
        opened.append(route.url)
        server = route.connect_to_server()

        def forward(message: str) -> None:
            server.send(message)
            if len(opened) == 1 and '"step"' in message:
                server.close()
                route.close(code=4000)

        route.on_message(forward)

    page.route_web_socket(re.compile("/ws"), pass_on)
    begin(page, told.url)
    submit(page, scripted(sleep=0.5))
    expect(page.locator("#now")).to_contain_text("Passed")
    assert ["resume=" in url for url in opened] == [False, True]
    expect(page.get_by_text("1 of 4 submissions used")).to_be_visible()


def test_a_refusal_says_what_to_do(launch: Launch, page: Any) -> None:
    full = launch(KERNEL_ENV_MAX_SESSIONS="1")
    with full.connect() as wire:
        wire.reset()
        page.goto(full.url)
        expect(page.get_by_role("status").first).to_contain_text("ready")
        page.get_by_role("button", name="Begin").click()
        expect(page.get_by_role("alert")).to_contain_text("(CAPACITY_REACHED)")
    full.wait_for(5.0, active_sessions=0)
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_text("0 of 4 submissions used")).to_be_visible()


def test_a_browsers_password_is_the_token(launch: Launch, browser: Any) -> None:
    locked = launch(KERNEL_ENV_TOKEN="s3cret")
    for page in opened(browser, http_credentials={"username": "me", "password": "s3cret"}):
        begin(page, f"{locked.url}/web/kernels/")
        submit(page, CODE)
        expect(page.locator("#now")).to_contain_text("Passed")


def test_leaving_frees_the_place(mock: Server, browser: Any) -> None:
    mock.wait_for(5.0, active_sessions=0)
    for page in opened(browser):
        begin(page, mock.url)
        mock.wait_for(5.0, active_sessions=1)
        page.goto("about:blank")
        mock.wait_for(5.0, active_sessions=0)


@pytest.mark.slow
def test_a_real_evaluation(launch: Launch, page: Any) -> None:
    real = launch(KERNEL_ENV_EVALUATOR="cpu", KERNEL_ENV_TRIALS="2")
    real.wait_for(120.0, state="ready")
    begin(page, real.url)
    page.get_by_role("button", name="Insert an example").click()
    page.get_by_role("button", name="Evaluate").click()
    expect(page.locator("#now")).to_contain_text("Running: ", timeout=60_000)
    expect(page.locator("#now")).to_have_text("Passed. Reward 0.3.", timeout=120_000)
    stages = page.get_by_role("list", name="Stages").get_by_role("listitem")
    expect(stages.filter(has_text="correctness")).to_have_text(re.compile(r"\d\.\d\d s\s*done"))
    expect(page.get_by_label("Feedback")).to_contain_text("interpreter")
