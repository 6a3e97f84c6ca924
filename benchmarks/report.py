"""Dated results of benchmarks: lines that are printed and, with --write, kept."""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path


class Report:
    """Collects the lines of a result in Markdown, printing each as it comes."""

    def __init__(self, name: str, title: str) -> None:
        self._name = name
        self._lines: list[str] = []
        self.say(f"# {title}")
        self.say()
        arguments = " ".join(["python", f"benchmarks/{name}.py", *sys.argv[1:]])
        self.say(f"Command: `{arguments}`. Machine: {_machine()}.")
        self.say()

    def say(self, line: str = "") -> None:
        """Add one line."""
        print(line, flush=True)
        self._lines.append(line)

    def table(self, header: list[str], rows: list[list[str]]) -> None:
        """Add a table."""
        self.say("| " + " | ".join(header) + " |")
        self.say("|" + "---|" * len(header))
        for row in rows:
            self.say("| " + " | ".join(row) + " |")
        self.say()

    def write(self) -> Path:
        """Keep the report under `benchmarks/results`, under today's date."""
        day = datetime.now(UTC).date().isoformat()
        path = Path(__file__).parent / "results" / f"{day}-{self._name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(self._lines).rstrip() + "\n", encoding="utf-8")
        return path


def _machine() -> str:
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, "
        f"Python {platform.python_version()}"
    )
