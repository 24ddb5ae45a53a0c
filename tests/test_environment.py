"""What a program sees of its process: environment, flags, modules, heap, stacks, and no host path."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import anyio
import pytest
from run_requests import Provider, Run, build_request

import code_runtime_worker_thread
from code_runtime import CodeRunResult

pytestmark = pytest.mark.anyio

PACKAGE = str(Path(code_runtime_worker_thread.__file__).parent)
# Where this project, its Node and its interpreter are; the run's own directory is named apart.
HOST_PATHS = (PACKAGE, "host.mjs", "worker.mjs", sys.prefix, str(Path.home()), "node_modules")


def value_of(result: CodeRunResult) -> object:
    assert result.error is None, result.error
    return result.value


def texts_of(result: CodeRunResult) -> list[str]:
    value = value_of(result)
    assert isinstance(value, list)
    assert all(isinstance(item, str) for item in value)
    return value


def failure(result: CodeRunResult) -> tuple[str, str]:
    assert result.error is not None, result
    return result.error.kind, result.error.message


async def test_the_environment_is_the_temporary_directory_and_nothing_else(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WT-034 (deviation): TMPDIR is the run's directory, for children too; nothing is inherited."""
    monkeypatch.setenv("SECRET_TOKEN", "abc")
    monkeypatch.setenv("NODE_OPTIONS", "--no-such-option")
    cwd, env, os_tmpdir, inherited = texts_of(
        await run(
            """
            import { execFileSync } from "node:child_process"; import os from "node:os";
            return [process.cwd(), JSON.stringify(process.env), os.tmpdir(),
              execFileSync("/usr/bin/env").toString()]
            """
        )
    )
    assert (env, os_tmpdir, inherited) == (f'{{"TMPDIR":"{cwd}"}}', cwd, f"TMPDIR={cwd}\n")
    assert cwd.startswith(f"{tempfile.gettempdir()}/code-runtime-")


async def test_hosts_started_under_another_environment_do_not_inherit_it(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WT-034, WT-035: neither the host's variables nor its Node options."""
    monkeypatch.setenv("SECRET_TOKEN", "abc")
    monkeypatch.setenv("NODE_OPTIONS", "--no-such-option")
    async with provider(spare_hosts=1) as runtime:
        result = await runtime.run(
            build_request(
                """
                import { readFileSync } from "node:fs";
                return [Object.keys(process.env), process.execArgv, readFileSync("/proc/self/environ", "utf8")]
                """
            )
        )
    assert value_of(result) == [["TMPDIR"], [], ""]


async def test_each_worker_is_fresh_and_tells_nothing_of_its_start(run: Run) -> None:
    """WT-034, WT-035."""
    seen = value_of(
        await run(
            """
            import threads from "node:worker_threads";
            return [threads.isMainThread, threads.workerData, threads.parentPort, process.argv,
              process.execArgv, threads.getEnvironmentData("x") === undefined]
            """
        )
    )
    assert seen == [False, None, None, ["node", "program.ts"], [], True]


async def test_children_get_no_flags_of_the_host(run: Run) -> None:
    """WT-035: the permission model of the host is not imposed on them."""
    seen = value_of(
        await run(
            """
            import { fork } from "node:child_process"; import fs from "node:fs";
            fs.writeFileSync("child.js",
              "process.send([process.execArgv, Object.keys(process.env).filter((name) => name !== 'NODE_CHANNEL_FD'"
              + " && name !== 'NODE_CHANNEL_SERIALIZATION_MODE'), process.permission === undefined])")
            const child = fork("./child.js")
            return await new Promise((resolve) => child.once("message", resolve))
            """
        )
    )
    assert seen == [[], ["TMPDIR"], True]


async def test_node_and_its_modules_are_reachable(run: Run) -> None:
    """WT-036: the authority of a shell tool."""
    seen = value_of(
        await run(
            """
            import fs from "node:fs"; import { execSync } from "node:child_process";
            import net from "node:net"; import { Worker } from "node:worker_threads";
            fs.writeFileSync("a.txt", "x")
            const server = net.createServer((socket) => socket.end("hi")).listen(0)
            await new Promise((resolve) => server.once("listening", resolve))
            const { port } = server.address() as net.AddressInfo
            let heard = ""
            for await (const chunk of net.connect(port)) heard += chunk
            server.close()
            const worker = new Worker("require('node:worker_threads').parentPort.postMessage(7)", { eval: true })
            const posted = await new Promise((resolve) => worker.once("message", resolve))
            return [fs.readdirSync("."), execSync("cat a.txt").toString(), heard, posted, typeof fetch]
            """
        )
    )
    assert seen == [["a.txt"], "x", "hi", 7, "function"]


async def test_the_heap_has_the_configured_limit(provider: Provider) -> None:
    """WT-037: test_hostile.py shows what happens above it, and that Buffers do not escape."""
    async with provider(max_old_generation_size_mb=96) as runtime:
        result = await runtime.run(
            build_request(
                'import threads from "node:worker_threads"; return threads.resourceLimits.maxOldGenerationSizeMb'
            )
        )
    assert value_of(result) == 96


@pytest.mark.parametrize(
    ("change", "look", "whole"),
    [
        pytest.param("globalThis.mark = 1", "typeof globalThis.mark", "undefined", id="global"),
        pytest.param(
            "Array.prototype.map = () => 'broken'", "[1].map((x) => x + 1)", [2], id="prototype"
        ),
        pytest.param("process.env.MARK = '1'", "process.env.MARK ?? null", None, id="environment"),
        pytest.param(
            "import('node:fs').then((fs) => { fs.closeSync(1); fs.openSync('stolen.txt', 'w') })",
            "(await import('node:fs')).fstatSync(1).isFIFO()",
            True,
            id="descriptor 1",
        ),
        pytest.param(
            "import('node:fs').then((fs) => { fs.closeSync(0); fs.openSync('/etc/passwd', 'r') })",
            "(await import('node:fs')).readFileSync(0, 'utf8')",
            "",
            id="descriptor 0",
        ),
        pytest.param(
            "import('node:child_process').then((c) => c.execFileSync('python3', "
            "['-c', 'import os; os.set_blocking(1, False)'], { stdio: 'inherit' }))",
            "/^flags:.*4...$/m.test((await import('node:fs')).readFileSync('/proc/self/fdinfo/1', 'utf8'))",
            False,
            id="non-blocking descriptor 1",
        ),
    ],
)
async def test_nothing_set_in_one_run_is_there_in_the_next(
    provider: Provider, change: str, look: str, whole: object
) -> None:
    """WT-038, SC-043: two hosts take turns, so each sees what the other's last run left."""
    async with provider(spare_hosts=1, max_concurrent_runs=1) as runtime:
        before = value_of(await runtime.run(build_request(f"return {look}")))
        for _ in range(4):
            result = await runtime.run(
                build_request(f"const seen = {look}; await ({change}); return seen")
            )
            assert value_of(result) == (before if whole is None else whole)


async def test_a_trivial_run_takes_less_time_than_a_worker_needs_to_boot(run: Run) -> None:
    """WT-039: 60 ms upstream; the best of ten, since other tests share the machine."""
    await run("return 1")
    best_s = float("inf")
    for _ in range(10):
        await anyio.sleep(0.1)  # lets the pool boot a replacement
        started_s = time.perf_counter()
        await run("return 1")
        best_s = min(best_s, time.perf_counter() - started_s)
    assert best_s < 0.06, f"{best_s * 1000:.1f} ms"


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("return new Error('x').stack", id="stack"),
        pytest.param(
            "const holder: any = {}; Error.captureStackTrace(holder); return holder.stack",
            id="captureStackTrace",
        ),
        pytest.param(
            "Error.stackTraceLimit = 100; return await new Promise((resolve) => "
            "setTimeout(() => resolve(new Error('t').stack)))",
            id="timer",
        ),
        pytest.param(
            "try { (tools as any).nope() } catch (e: any) { return e.stack }", id="member"
        ),
        pytest.param(
            "try { await tools.fail(1) } catch (e: any) { return [e.stack, e.message] }",
            id="binding",
        ),
        pytest.param(
            "try { (console as any).table(1) } catch (e: any) { return e.stack }", id="console"
        ),
        pytest.param(
            "import vm from 'node:vm'; const e = vm.runInNewContext(\"new Error('x')\");\n"
            "try { vm.runInNewContext('null.x') } catch (t: any) { return [e.stack, t.stack] }",
            id="other realm",
        ),
        pytest.param(
            "import { createRequire } from 'node:module'\n"
            "try { createRequire(process.cwd() + '/x.js')('./nope') } catch (e: any) { return [e.stack, e.message] }",
            id="require",
        ),
        pytest.param(
            "import fs from 'node:fs'; try { fs.readFileSync('/nope') } catch (e: any) { return e.stack }",
            id="file system",
        ),
        pytest.param("return [process.argv, process.execArgv]", id="arguments"),
        pytest.param("process.emitWarning('w'); return 1", id="warning"),
        pytest.param("globalThis.console.trace('t')", id="trace"),
        pytest.param("console.log(new Error('x', { cause: new TypeError('y') }))", id="logged"),
        pytest.param("const f: any = () => f(); f()", id="overflow"),
        pytest.param("import fs from 'node:fs'; await fs.promises.readFile('/nope')", id="thrown"),
        pytest.param("await import('./nope.mjs')", id="import"),
        pytest.param("await import('nope')", id="package import"),
        pytest.param(
            "import { Worker } from 'node:worker_threads'; new Worker('./nope.mjs'); await new Promise(() => {})",
            id="nested worker",
        ),
        pytest.param("Promise.reject(new Error('x')); await new Promise(() => {})", id="rejection"),
        pytest.param(
            "setTimeout(() => { throw new Error('x') }); await new Promise(() => {})",
            id="throw in timer",
        ),
        pytest.param("(process as any).chdir('/')", id="unsupported"),
    ],
)
async def test_no_path_of_the_host_is_shown(run: Run, program: str) -> None:
    """WT-047, WT-147, GP-005: in stacks, arguments, messages and logs."""

    def fail(_: object) -> None:
        raise LookupError("no such row")

    shown = repr(await run(program, {"fail": fail}))
    assert [path for path in HOST_PATHS if path in shown] == []
    assert "file://" not in shown


async def test_a_relative_import_resolves_in_the_directory_of_the_run(run: Run) -> None:
    """WT-030, GP-012: TypeScript and JSON files too."""
    seen = value_of(
        await run(
            """
            import fs from "node:fs"
            fs.mkdirSync("lib")
            fs.writeFileSync("lib/b.ts", "export const b: number = 41")
            fs.writeFileSync("lib/a.mjs", "import { b } from './b.ts'; export const a = b + 1")
            fs.writeFileSync("x.json", '{"deep":[1]}')
            const { default: json } = await import("./x.json", { with: { type: "json" } })
            return [(await import("./lib/a.mjs")).a, json, (await import("node:path")).sep]
            """
        )
    )
    assert seen == [42, {"deep": [1]}, "/"]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        pytest.param(
            "await import('./nope.mjs')",
            "Error [ERR_MODULE_NOT_FOUND]: Cannot find module './nope.mjs' imported from ./",
            id="file",
        ),
        pytest.param(
            "await import('lodash')",
            "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'lodash' imported from ./",
            id="package",
        ),
        pytest.param(
            "await import('node:nope')",
            "Error [ERR_UNKNOWN_BUILTIN_MODULE]: No such built-in module: node:nope",
            id="built-in",
        ),
    ],
)
async def test_a_failed_import_shows_a_relative_place(run: Run, program: str, message: str) -> None:
    """WT-030, GP-012."""
    assert failure(await run(program)) == ("exception", message)


async def test_a_caught_failed_import_shows_the_directory_of_the_run(run: Run) -> None:
    """WT-030: to the program, which knows it as process.cwd(); never the runtime's own folder."""
    cwd, message = texts_of(
        await run(
            "return [process.cwd(), await import('./nope.mjs').catch((error) => error.message)]"
        )
    )
    assert message == f"Cannot find module '{cwd}/nope.mjs' imported from {cwd}/"
