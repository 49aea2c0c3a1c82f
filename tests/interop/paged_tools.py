"""The official Python SDK's client lists all tools, page by page, and prints how many.

    paged_tools.py URL
"""

import asyncio
import sys

from mcp import Client


async def main(url):
    async with Client(url) as client:
        names, cursor = [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        print(len(set(names)))


asyncio.run(main(sys.argv[1]))
