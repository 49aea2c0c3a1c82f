"""The package as it is built and installed."""

from __future__ import annotations

import asyncio
import sys
import zipfile
from pathlib import Path

from support.server import ROOT

import a11_grpc


async def test_a_wheel_has_the_types_and_nothing_but_the_package(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path)),
        str(ROOT / "clients" / "python"),
    )
    assert await process.wait() == 0
    [wheel] = [*tmp_path.glob("a11_grpc-*.whl")]  # noqa: ASYNC240 (a folder of this test)
    names = zipfile.ZipFile(wheel).namelist()
    assert "a11_grpc/py.typed" in names
    assert "a11_grpc/_proto/chunk_pb2.pyi" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"a11_grpc"}


def test_everything_that_is_offered_is_there_and_documented() -> None:
    for name in a11_grpc.__all__:
        assert getattr(a11_grpc, name).__doc__, name
