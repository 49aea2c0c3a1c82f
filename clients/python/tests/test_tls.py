"""A service with TLS."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
import trustme
from support.server import ROOT, serving

import a11_grpc


async def test_a_service_with_tls_is_reached_by_https_alone(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    certificate.cert_chain_pems[0].write_to_path(str(chain))
    certificate.private_key_pem.write_to_path(str(key))
    arguments = ["--tls-cert", str(chain), "--tls-key", str(key)]
    config = ["--config", str(ROOT / "examples" / "actions.toml")]
    async with serving([*arguments, *config]) as server:
        url = f"https://localhost:{server.port}"
        root = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
        async with a11_grpc.connect(url, credentials=root) as client:
            assert (await client.call("word_count", text="a b"))["words"] == 2
        # Not vouched for by the web's roots, and never in the clear.
        for address in (url, f"http://localhost:{server.port}"):
            with pytest.raises(a11_grpc.ConnectError) as caught:
                await a11_grpc.connect(address)
            assert address in caught.value.message
