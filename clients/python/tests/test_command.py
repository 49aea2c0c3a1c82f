"""`python -m a11_grpc host`, as people run it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import a11_grpc
from a11_grpc import Client

MODULE = """
import a11_grpc

REGISTRY = a11_grpc.Registry()
OTHER = a11_grpc.Registry()
EMPTY = a11_grpc.Registry()
NUMBER = 5

@REGISTRY.action
async def m_double(number: int) -> int:
    "Twice as much."
    return number * 2

@REGISTRY.action
async def word_count(text: str) -> int:
    "Is there already."
    return 0

@OTHER.action
def m_stuck(seconds: float) -> None:
    "Ignores everything."
    import time
    time.sleep(seconds)
"""

ODD = """
import a11_grpc

REGISTRY = a11_grpc.Registry()

@REGISTRY.action
def m_odd(*numbers: int) -> int:
    "Takes what has no name."
    return sum(numbers)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "tools.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("x = 1\nraise RuntimeError('not today')\n")
    (tmp_path / "odd.py").write_text(ODD)
    return tmp_path


@asynccontextmanager
async def command(folder: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "a11_grpc", *arguments),
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def until_ready(process: asyncio.subprocess.Process) -> list[str]:
    assert process.stderr is not None
    lines: list[str] = []
    async with asyncio.timeout(30):
        while not lines or not lines[-1].startswith("ready "):
            line = (await process.stderr.readline()).decode()
            assert line, lines
            lines.append(line.rstrip("\n"))
    return lines


@pytest.mark.parametrize(
    ("target", "number"),
    [
        ("pack.tools", signal.SIGTERM),
        ("./pack/tools.py", signal.SIGINT),
        ("pack/tools.py:REGISTRY", signal.SIGTERM),
    ],
)
async def test_a_module_s_actions_are_hosted_until_a_signal(
    client: Client, address: str, folder: Path, target: str, number: signal.Signals
) -> None:
    async with command(folder, "host", target, "--server", address, "--name", "n") as process:
        lines = await until_ready(process)
        assert lines[0] == "hosting m_double"
        assert lines[1].startswith("refused word_count: ALREADY_EXISTS: ")
        assert await client.call("m_double", number=4) == 8
        process.send_signal(number)
        async with asyncio.timeout(20):
            assert await process.wait() == 0
        assert process.stderr is not None
        assert (await process.stderr.read()).decode() == ""


async def test_a_function_that_does_not_end_does_not_keep_the_program(
    client: Client, address: str, folder: Path
) -> None:
    async with command(folder, "host", "pack.tools:OTHER", "--server", address) as process:
        await until_ready(process)
        call = await client.start("m_stuck", seconds=3600)
        await asyncio.sleep(0)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            assert await process.wait() == 0
        call.cancel()


async def test_mistakes_are_told_in_one_line_with_an_exit_code(address: str, folder: Path) -> None:
    async def check(target: str, server: str, code: int, expected: str) -> None:
        async with command(folder, "host", target, "--server", server) as process:
            async with asyncio.timeout(30):
                _, stderr = await process.communicate()
        text = stderr.decode()
        assert expected in text, text
        assert "Traceback" not in text
        # gRPC's own library tells of a TLS handshake that failed, too.
        noise = ("ssl_transport_security", "absl::InitializeLog")
        said = [line for line in text.splitlines() if not any(part in line for part in noise)]
        assert len(said) == 1, text
        assert process.returncode == code

    await asyncio.gather(
        check("nowhere.tools", address, 2, "ModuleNotFoundError"),
        check("nowhere.py", address, 2, "no such file"),
        check("broken.py", address, 2, f"RuntimeError: not today ({folder / 'broken.py'}:2)"),
        # Not where in the library it is noticed.
        check("odd.py", address, 2, f"or take a list or a dict ({folder / 'odd.py'}:6)"),
        check("pack.tools:MISSING", address, 2, "it has: REGISTRY, OTHER, EMPTY"),
        check("pack.tools:NUMBER", address, 2, "NUMBER is no Registry"),
        check("pack.tools:EMPTY", address, 2, "no actions"),
        check("pack.tools", "ftp://x", 2, "not a server's address"),
        check("pack.tools", "127.0.0.1:1", 3, "cannot reach the server"),
        check(
            "pack.tools", f"https://{address}", 3, f"it answers without TLS; try http://{address}"
        ),
        check("pack.tools", "", 2, "A11_SERVER_URL is not set"),
    )


async def test_where_every_action_is_refused_it_says_so_and_ends(
    address: str, folder: Path
) -> None:
    taken = "import a11_grpc\nREGISTRY = a11_grpc.Registry()\n"
    taken += "@REGISTRY.action\ndef word_count(text: str) -> int: return 0\n"
    (folder / "taken.py").write_text(taken)
    async with command(folder, "host", "taken.py", "--server", address) as process:
        async with asyncio.timeout(30):
            _, stderr = await process.communicate()
    lines = stderr.decode().splitlines()
    assert lines[0].startswith("refused word_count: ALREADY_EXISTS: ")
    assert lines[1:] == ["error: the server serves none of the actions"]
    assert process.returncode == 3


async def test_the_server_may_be_named_by_the_environment(
    client: Client, address: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A11_SERVER_URL", f"http://{address}")
    async with command(folder, "host", "pack.tools") as process:
        await until_ready(process)
        assert await client.call("m_double", number=4) == 8


async def test_help_says_what_it_does_and_how_it_ends(folder: Path) -> None:
    async def said(*arguments: str) -> tuple[int | None, bytes]:
        async with command(folder, *arguments) as process:
            stdout, stderr = await process.communicate()
        return process.returncode, stdout + stderr

    whole, host, nothing, version = await asyncio.gather(
        said("--help"), said("host", "--help"), said(), said("--version")
    )
    assert version == (0, f"a11-grpc {a11_grpc.__version__}\n".encode())
    assert a11_grpc.__version__[0].isdigit()
    assert b"A11_SERVER_URL" in host[1]
    assert (whole[0], host[0], nothing[0]) == (0, 0, 2)
    assert b"host" in whole[1]
    assert b"exit codes: 0" in host[1]
    assert b"ready SESSION" in host[1]
    assert b"usage:" in nothing[1]
