"""The two built modules stand alone, and their sources are types over plain JavaScript.

`tests/test_wheels.py` installs the wheels into a new environment; `host/test/build.test.ts` reads
the imports of what is built.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from run_requests import build_request

import code_runtime_worker_thread._host as host_module
from code_runtime import Context
from code_runtime_worker_thread import WorkerThreadCodeRuntime
from code_runtime_worker_thread._node import find_node

PACKAGE = Path(__file__).parents[1]

TYPED_PROGRAM = """
enum Level { Low = 1, High }
interface Row { id: number; tags?: string[] }
const row = await tools.find({ id: Level.High } satisfies Row) as Row;
try { await tools.fail(null) } catch (error) {
  if (error instanceof ToolCallError) console.log(error.name, error.toolName, error.message);
}
return row;
"""


@pytest.mark.anyio
async def test_the_two_modules_boot_alone_in_an_empty_folder(
    anyio_backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WT-195: without the checkout, its node_modules or a package.json around them."""
    for name in ("host.mjs", "worker.mjs"):
        shutil.copy(host_module.HOST_SCRIPT.parent / name, tmp_path / name)
    monkeypatch.setattr(host_module, "HOST_SCRIPT", tmp_path / "host.mjs")

    def fail(_: object) -> None:
        raise LookupError("no such row")

    async with Context() as ctx:
        await ctx.plugin(WorkerThreadCodeRuntime)
        result = await ctx.codeRuntime.run(
            build_request(TYPED_PROGRAM, {"find": lambda row: row, "fail": fail})
        )
    assert (result.logs, result.value, result.error) == (
        ["ToolCallError fail no such row"],
        {"id": 2},
        None,
    )
    assert sorted(os.listdir(tmp_path)) == ["host.mjs", "worker.mjs"]


BY_NAME = f"""
import anyio
from code_runtime import CodeBindingErrorClass, CodeBindingNamespace, CodeRunRequest, Context

def fail(_):
    raise LookupError("no such row")

async def main():
    async with Context() as ctx:
        await ctx.plugin("worker-thread")
        tools = CodeBindingNamespace("tools", {{"find": lambda row: row, "fail": fail}},
                                     CodeBindingErrorClass("ToolCallError", "toolName"))
        result = await ctx.codeRuntime.run(CodeRunRequest({TYPED_PROGRAM!r}, [tools]))
        print(result.logs, result.value, result.error)

anyio.run(main)
"""


def test_the_package_works_by_name_in_a_fresh_process(tmp_path: Path) -> None:
    """WT-196: found by its entry point, with no Node but the one that pip installed."""
    done = subprocess.run(
        [sys.executable, "-c", BY_NAME],
        cwd=tmp_path,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr, done.returncode) == (
        "['ToolCallError fail no such row'] {'id': 2} None\n",
        "",
        0,
    )


STRIP_ALL = """
const { readFileSync } = require("node:fs"), { stripTypeScriptTypes } = require("node:module");
const refused = {};
for (const path of JSON.parse(process.argv[1])) {
  try { stripTypeScriptTypes(readFileSync(path, "utf8"), { mode: "strip" }) }
  catch (error) { refused[path] = error.message }
}
process.stdout.write(JSON.stringify(refused));
"""


@pytest.mark.anyio
async def test_the_sources_of_the_host_are_erasable_typescript(anyio_backend: str) -> None:
    """WT-197: no parameter property, enum or namespace: types only, over plain JavaScript."""
    node = await find_node()
    sources = sorted(str(path) for path in (PACKAGE / "host" / "src").glob("*.ts"))
    assert str(PACKAGE / "host" / "src" / "worker.ts") in sources
    bad = PACKAGE / "tests" / "missing.ts"
    done = await anyio.run_process(
        [node.path, "--no-warnings", "-e", STRIP_ALL, json.dumps([*sources, str(bad)])]
    )
    # The file that is not there shows that a refusal would be seen.
    assert list(json.loads(done.stdout)) == [str(bad)]
