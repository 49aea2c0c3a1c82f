"""Why a server is not reached, and what to try: TLS on one side alone, or a certificate."""

from __future__ import annotations

import asyncio
import re
import ssl

PROBE_SECONDS = 3.0
"""How long a server may take to show whether it speaks TLS, in seconds."""

_VERIFICATION = re.compile(r"CERTIFICATE_VERIFY_FAILED: ([^:]+)")
_STARTS = ("failed to connect to all addresses; last error: ", "UNKNOWN: ", "UNAVAILABLE: ")


async def explain(host: str, port: int, *, is_secure: bool, cause: str) -> str:
    """What went wrong, in one sentence; gRPC's own words where there is nothing to add."""
    failed = _VERIFICATION.search(cause)
    if failed is not None:
        return (
            f"its certificate is not trusted here ({failed[1].strip()}); give the authority's that "
            "it is signed by: credentials=grpc.ssl_channel_credentials(pem), or the file in "
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
        )
    if "Hostname Verification" in cause or "is not in peer certificate" in cause:
        return f"its certificate is not for {host!r}; try the name that it is for"
    speaks_tls = await _speaks_tls(host, port)
    shown = f"[{host}]" if ":" in host else host
    if speaks_tls and not is_secure:
        return f"it answers with TLS; try https://{shown}:{port}"
    if speaks_tls is False and is_secure:
        return f"it answers without TLS; try http://{shown}:{port}"
    for start in _STARTS:
        cause = cause.removeprefix(start)
    return cause


async def _speaks_tls(host: str, port: int) -> bool | None:
    """Whether there is TLS; None: nobody answers."""
    context = ssl.create_default_context()
    # What it says of itself does not matter here: nothing is sent.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except ssl.SSLCertVerificationError:
        return True
    except ssl.SSLError:
        return False
    except (OSError, ValueError):
        return None
    writer.transport.abort()
    return True
