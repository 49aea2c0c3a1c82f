"""The benchmark's server on the official Python SDK: `stdio`, or a port for HTTP."""

import sys

from mcp.server import MCPServer

server = MCPServer("bench", log_level="ERROR")


@server.tool()
def echo(word: str) -> str:
    """Says it again."""
    return word


if sys.argv[1] == "stdio":
    server.run()
else:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
