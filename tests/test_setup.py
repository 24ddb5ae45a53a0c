"""The logic of `scripts/setup.py`: what is done again, and when."""

from __future__ import annotations

import importlib.util
import os
import resource
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "setup.py"


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("workspace_setup", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["workspace_setup"] = module
    spec.loader.exec_module(module)
    return module


setup = load_script()


class Counter:
    """A step that counts how often it is done."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / ".setup"
        self.state.mkdir()
        self.output = folder / "output"
        self.count = 0

    def step(self, key: str = "one") -> object:
        def action() -> None:
            self.count += 1
            self.output.write_text("made")

        return setup.Step("step", "a step", key, (self.output,), action)

    def perform(self, key: str = "one") -> bool:
        done: bool = setup.perform(self.step(key), self.state)
        return done


def test_step_is_done_once_for_one_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counter = Counter(tmp_path)
    assert [counter.perform(), counter.perform()] == [True, False]
    assert counter.count == 1
    assert capsys.readouterr().out == "set-up: a step (0.0 s)\n"


def test_step_is_done_again_when_its_inputs_change(tmp_path: Path) -> None:
    counter = Counter(tmp_path)
    assert [counter.perform("one"), counter.perform("two"), counter.perform("one")] == [True] * 3


def test_step_is_done_again_when_its_output_is_gone(tmp_path: Path) -> None:
    counter = Counter(tmp_path)
    counter.perform()
    counter.output.unlink()
    assert counter.perform()


def test_step_that_was_interrupted_is_done_again(tmp_path: Path) -> None:
    counter = Counter(tmp_path)
    counter.perform("old")

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        setup.perform(
            setup.Step("step", "a step", "new", (counter.output,), interrupt), counter.state
        )
    # Neither the new key nor the old one: the outputs may be half of each.
    assert not (counter.state / "step.stamp").exists()
    assert counter.perform("old")


def test_step_without_its_output_fails(tmp_path: Path) -> None:
    missing = tmp_path / "never"
    step = setup.Step("step", "a step", "key", (missing,), lambda: None)
    with pytest.raises(setup.StepError) as caught:
        setup.perform(step, tmp_path)
    assert str(caught.value) == f"Cannot set up a step: {missing} not there afterwards"


def test_digest_follows_content_names_and_place(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a")
    seen = [setup.digest(one, two, root=tmp_path)]
    two.write_text("")
    seen.append(setup.digest(one, two, root=tmp_path))
    one.write_text("b")
    seen.append(setup.digest(one, two, root=tmp_path))
    one.rename(tmp_path / "three")
    seen.append(setup.digest(tmp_path / "three", two, root=tmp_path))
    seen.append(setup.digest("3.11", tmp_path / "three", two, root=tmp_path))
    assert len(set(seen)) == 5


def test_command_that_fails_shows_the_end_of_its_output(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = "print(*range(100), sep='\\n'); raise SystemExit(3)"
    command = [sys.executable, "-c", program]
    with pytest.raises(setup.StepError) as caught:
        setup.execute(command, log=log, cwd=tmp_path, env=os.environ)
    *tail, last = str(caught.value).splitlines()
    assert tail == [str(number) for number in range(60, 100)]
    assert last == f"Cannot finish `{' '.join(command)}`: exit code 3; full output in {log}"


def test_second_setup_of_a_checkout_waits_for_the_first(tmp_path: Path) -> None:
    program = f"""
import importlib.util, pathlib, sys
spec = importlib.util.spec_from_file_location("workspace_setup", {str(SCRIPT)!r})
module = importlib.util.module_from_spec(spec)
sys.modules["workspace_setup"] = module
spec.loader.exec_module(module)
with module.only_one(pathlib.Path({str(tmp_path)!r})):
    print("in", flush=True)
"""
    with setup.only_one(tmp_path):
        other = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, encoding="utf-8"
        )
        assert other.stdout is not None
        first = other.stdout.readline()
        assert first == "set-up: waiting for another set-up of this checkout\n"
    rest, _ = other.communicate(timeout=20)
    assert rest == "in\n"


def test_setup_of_a_checkout_that_is_up_to_date_takes_less_than_a_second() -> None:
    if not (ROOT / ".setup" / "build.stamp").exists():
        pytest.skip("this checkout was not set up by scripts/setup.py")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, encoding="utf-8")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout == "set-up: up to date\n", done.stderr
    # Computing time: other tests share the machine.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1
