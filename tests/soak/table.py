"""Print the table of docs/reliability.md from what soaks have written.

python tests/soak/table.py python.json worker-thread.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

COUNTS = ("descriptors", "tasks", "threads", "processes", "files")
NAMES = {"python": "Python", "worker-thread": "worker thread"}


def describe(provider: str, document: dict[str, Any]) -> list[str]:
    """Return the paragraph and the rows of one provider."""
    report = document["providers"][provider]
    first, last = report["samples"][0], report["samples"][-1]
    heading = (
        f"{document['date']}, `{document['command']}`: {report['run_count']:,} runs of "
        f"{len(report['cases'])} cases in {report['seconds'] / 60:.0f} minutes, "
        f"{report['problem_count']} outcomes not as scripted, {len(report['stuck'])} stuck runs."
    )
    rows = [
        f"| {NAMES[provider]} | after {first['run_count']:,} runs | after {last['run_count']:,} | "
        "growth for 1,000 runs [95 %] |",
        "|---|---|---|---|",
        "| "
        + " | ".join(
            [
                ", ".join(COUNTS),
                ", ".join(str(first[name]) for name in COUNTS),
                ", ".join(str(last[name]) for name in COUNTS),
                "0",
            ]
        )
        + " |",
    ]
    rows += [
        f"| {line['name']} | {line['first']} | {line['last']} | {line['growth']} MiB |"
        for line in report["lines"]
        if line["name"].startswith("memory")
    ]
    return [heading, "", *rows, ""]


def main() -> None:
    """Print all."""
    for path in sys.argv[1:]:
        document = json.loads(Path(path).read_text("utf-8"))
        for provider in document["providers"]:
            sys.stdout.write("\n".join(describe(provider, document)) + "\n")


if __name__ == "__main__":
    main()
