"""The client of the Python package a11-kit against our MCP server: it sees the
declared ports, streams into them, and reads what comes out.

    a11_kit_client.py (URL | PROGRAM ARGUMENT…)
"""

import asyncio
import sys

from a11.sdk import mcp
from mcp import StdioServerParameters


async def check(server):
    async with mcp.connect(server) as toolset:
        actions = set(toolset.registry.list_registered_actions())
        assert {"echo", "counted", "split_words", "picture"} <= actions, actions

        call = toolset.action("counted").run()
        await call["text"].finalize("one two")
        await call["parts"].put("three")
        await call["parts"].finalize("four")
        words = [word async for word in call["words"]]
        total = await call["total"].consume()
        await call.wait()
        assert words == ["one", "two", "three", "four"], words
        assert total == 4, total

        call = toolset.action("split_words").run()
        await call["text"].finalize("just one")
        words = [word async for word in call["words"]]
        await call.wait()
        assert words == ["just", "one"], words

        call = toolset.action("fail_with").run()
        await call["code"].finalize("NOT_FOUND")
        await call["message"].finalize("no such order")
        try:
            await call.wait()
        except Exception as error:
            assert "no such order" in str(error), error
        else:
            raise AssertionError("the failure did not arrive")
    print("all the same")


def main():
    target, *rest = sys.argv[1:]
    is_url = target.startswith("http://")
    asyncio.run(check(target if is_url else StdioServerParameters(command=target, args=rest)))


main()
