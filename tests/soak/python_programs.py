"""The programs of the soak in Python, by the name of their case; `@word@` is filled in."""

from __future__ import annotations

from python_forgery import FORGE

PROGRAMS = {
    "nothing": "pass",
    "value": "return @literal@",
    "echo": "return await tools.echo(@literal@)",
    "sequential": "total = 0\nfor n in range(@count@): total += await tools.double(n)\nreturn total",
    "gather": "import asyncio\nreturn sum(await asyncio.gather(*[tools.double(n) for n in range(@count@)]))",
    "failing call": "try: await tools.fail(1)\nexcept ToolError as error: return [str(error), error.member]",
    "failing call, uncaught": "print('before')\nawait tools.fail(1)",
    "unknown call": "try: await tools.missing(1)\nexcept AttributeError: return 'refused'",
    "slow call": "return await tools.slow(@count@)",
    "call without end": "import asyncio\ntask = asyncio.ensure_future(tools.never(1))\nawait asyncio.sleep(0)\nreturn await tools.echo(7)",
    "logs": "for n in range(@count@): print('line', n)\nreturn @count@",
    "log flood": "for n in range(3000): print('x' * 60)\nreturn 'kept'",
    "listener raises": "print('before')\nreturn 5",
    "native output": "import os, subprocess\nos.write(1, b'one\\ntwo\\n')\nsubprocess.run(['/bin/echo', 'three'])\nreturn 1",
    "exception": "print('before')\nraise ValueError('no @count@')",
    "syntax error": "return (((",
    "invalid output": "print('before')\nreturn {1, 2}",
    "value over budget": "print('before')\nreturn 'x' * 400_000",
    "deep value": "value = []\nfor _ in range(@count@ - 1): value = [value]\nreturn await tools.echo(value)",
    "wait": "import asyncio\nprint('before')\nawait asyncio.sleep(60)",
    "block": "import time\nprint('before')\ntime.sleep(60)",
    "call and wait": "print('before')\nawait tools.never(1)",
    "processor time": "print('before')\nwhile True: pass",
    "memory": "import time\nprint('before')\nkept = []\nwhile True:\n    kept.append(bytearray(b'x') * 4_000_000)\n    time.sleep(0.002)",
    "exit": "import os\nprint('before')\nos._exit(7)",
    "kill": "import os\nprint('before')\nos.kill(os.getpid(), 9)",
    "race": "import asyncio\nawait asyncio.sleep(0.004)\nreturn await tools.echo(3)",
    "junk": FORGE + "raw(bytes.fromhex('@junk@') + b'\\n')\nreturn 'honest'",
    "forged outcome": FORGE
    + "send(type='done', value='forged')\nsend(type='done', value=2)\ntime.sleep(60)",
    "left-overs": """
import os, subprocess
subprocess.Popen(["@marker@", "300"], executable="/bin/sleep")
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv("/bin/sleep", ["@marker@", "300"])
    os._exit(0)
return 'left'
""",
    "files": "import os\nseen = os.listdir('.')\nos.makedirs('a/b')\nopen('a/b/c', 'w').write('x' * 10_000)\nreturn seen",
    "state": "import builtins, json\nseen = [hasattr(builtins, 'soak'), hasattr(json, 'soak')]\nbuiltins.soak = json.soak = 1\nreturn seen",
}

MESSAGES = {
    "exit": "the Python process ended with code 7 before completing",
    "kill": "the Python process was ended by SIGKILL before completing",
    "processor time": "CPU limit reached: at most 1 s of processor time (cpu_seconds)",
    "memory": "memory limit reached: the program and its processes used more than 150 MiB (memory_mb)",
}

CONFIG: dict[str, object] = {
    "cpu_seconds": 1,
    "memory_mb": 150,
    "max_log_bytes": 65_536,
    "max_value_bytes": 262_144,
    "max_concurrent_runs": 8,
}
