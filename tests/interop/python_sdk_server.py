"""A server on the official Python SDK, on stdio: tools for our server to take in."""

import os

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("python-sdk")

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63606060000000040001f61738550000000049454e44ae426082"
)


@server.tool()
def add(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b


@server.tool()
def join(words: list[str]) -> str:
    """Joins."""
    return " ".join(words)


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=PIXEL, format="png")


@server.tool()
async def narrate(topic: str, ctx: Context) -> str:
    """Says what it does."""
    await ctx.report_progress(1, 2, f"Looking up {topic}.")
    await ctx.report_progress(2, 2, "Writing it down.")
    return topic.upper()


@server.tool()
def fail() -> str:
    """Fails."""
    raise ToolError("no such order")


@server.tool()
async def grow(ctx: Context) -> str:
    """Adds a tool."""

    def grown() -> str:
        return "grown"

    server.add_tool(grown, name="grown")
    await ctx.notify_tools_changed()
    return "there is one more"


@server.tool()
def process() -> int:
    """The process that this is."""
    return os.getpid()


@server.tool()
def die() -> str:
    """Ends the process in the middle of the call."""
    os._exit(3)


server.run()
