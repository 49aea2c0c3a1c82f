"""The README's Python, block after block, as a reader types it."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest
from support.server import ROOT, serving

import a11_grpc

README = ROOT / "clients" / "python" / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)


async def test_the_code_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    arguments = ["--config", "examples/actions.toml", "--store", str(tmp_path / "talk.db")]
    async with serving(arguments) as server, a11_grpc.connect(server.address) as client:
        for block in BLOCKS:
            text = block.replace("127.0.0.1:50051", server.address)
            code = compile(text, str(README), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            running = eval(code, names)
            if inspect.iscoroutine(running):
                await running
            # The first block has a client of its own, which the others go on with.
            names["client"] = client
    said = capsys.readouterr().out
    for expected in (
        "{'words': 4",
        "620",
        "nothing",
        "Finished(status=",
        "half of it",
        "A-404",
        "('order_status', 'the user said no')",
        "[1, 2, 3, 4]",
    ):
        assert expected in said, expected


def test_there_is_code_to_run_and_its_links_lead_somewhere() -> None:
    assert len(BLOCKS) > 8
    links = re.findall(r"\]\((?!\w+://)([^)#]+)", README.read_text())
    assert links
    for link in links:
        assert Path(README.parent, link).exists(), link
