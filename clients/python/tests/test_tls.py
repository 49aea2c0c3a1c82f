"""A service with TLS, and the mistakes that are made with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
import trustme
from support.server import ROOT, Server, serving

import a11_grpc

AUTHORITY = trustme.CA()
ROOTS = grpc.ssl_channel_credentials(AUTHORITY.cert_pem.bytes())


@asynccontextmanager
async def serving_tls(folder: Path, name: str) -> AsyncIterator[Server]:
    certificate = AUTHORITY.issue_cert(name)
    chain, key = folder / "chain.pem", folder / "key.pem"
    certificate.cert_chain_pems[0].write_to_path(str(chain))
    certificate.private_key_pem.write_to_path(str(key))
    config = ["--config", str(ROOT / "examples" / "actions.toml")]
    async with serving(["--tls-cert", str(chain), "--tls-key", str(key), *config]) as server:
        yield server


async def refused(
    url: str, *expected: str, credentials: grpc.ChannelCredentials | None = None
) -> None:
    with pytest.raises(a11_grpc.ConnectError) as caught:
        await a11_grpc.connect(url, credentials=credentials)
    assert caught.value.code is a11_grpc.Code.UNAVAILABLE
    message = caught.value.message
    assert len(message.splitlines()) == 1
    for text in (url, *expected):
        assert text in message, message


async def test_a_service_with_tls_is_reached_by_https_alone(tmp_path: Path) -> None:
    async with serving_tls(tmp_path, "localhost") as server:
        url = f"https://localhost:{server.port}"
        async with a11_grpc.connect(url, credentials=ROOTS) as client:
            assert (await client.call("word_count", text="a b"))["words"] == 2
        clear = f"http://localhost:{server.port}"
        await refused(clear, f"it answers with TLS; try {url}")
        other = grpc.ssl_channel_credentials(trustme.CA().cert_pem.bytes())
        for credentials in (None, other):
            hint = ("its certificate is not trusted here", "credentials=")
            await refused(url, *hint, credentials=credentials)


async def test_a_certificate_for_another_name_is_told(tmp_path: Path) -> None:
    async with serving_tls(tmp_path, "elsewhere.example") as server:
        url = f"https://localhost:{server.port}"
        await refused(url, "its certificate is not for 'localhost'", credentials=ROOTS)


async def test_credentials_for_a_clear_address_are_refused(address: str) -> None:
    for url in (address, f"http://{address}"):
        with pytest.raises(a11_grpc.ConnectError) as caught:
            await a11_grpc.connect(url, credentials=ROOTS, metadata={"authorization": "x"})
        assert caught.value.code is a11_grpc.Code.INVALID_ARGUMENT
        assert caught.value.message == (
            f"credentials were given for http://{address}, which is reached without TLS; "
            f"write https://{address}"
        )


async def test_a_service_without_tls_is_not_reached_by_https(address: str) -> None:
    await refused(f"https://{address}", f"it answers without TLS; try http://{address}")


async def test_where_nobody_answers_nothing_is_said_of_tls() -> None:
    for scheme in ("http", "https"):
        await refused(f"{scheme}://127.0.0.1:1", "Connection refused")
    await refused("https://nowhere.invalid:1", "nowhere.invalid")
