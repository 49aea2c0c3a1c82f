"""The official Python SDK's client against our MCP server.

    mcp_client.py RUN [-- RUN…] [--cases FILE [--deadline MS]]
    RUN: MODE (URL | PROGRAM ARGUMENT…)

MODE is `legacy` or `auto`. Lists the tools, calls some of them, and with --cases
every recorded call and header; with --deadline only the calls recorded with that
deadline, which the server has. Prints each difference, and ends with 1 where there is one.
The SDK validates structured content against the declared schema by itself.
"""

import asyncio
import json
import sys

from mcp import Client, MCPError, StdioServerParameters

OWN_CASES = [
    ("echo", {"word": "hello"}, {"structuredContent": {"echoed": "hello"}}),
    ("counted", {"text": "a", "parts": ["b"]}, {"structuredContent": {"words": ["a", "b"], "total": 2}}),
    ("picture", {"caption": "c"}, {"structuredContent": {"legend": {"caption": "c", "floor_index": 0}}}),
    ("sound", {}, {"structuredContent": {"title": "beep"}}),
    ("big", {"bytes": 2_000_000}, {}),
    ("no_outputs", {}, {}),
    ("fail_with", {"code": "NOT_FOUND", "message": "no such order"}, {"isError": True}),
]


def comparable(result):
    """JSON text as JSON, free wording left out, what the newest version adds too."""
    result = dict(result)
    result.pop("resultType", None)
    meta = {
        key: value
        for key, value in (result.pop("_meta", None) or {}).items()
        if not key.startswith("io.modelcontextprotocol/")
    }
    if meta:
        result["_meta"] = meta
    if not result.get("isError"):
        result.pop("isError", None)
    blocks = []
    for block in result["content"]:
        block = dict(block)
        text = block.get("text", "")
        if text.startswith(("INVALID_ARGUMENT: ", "DEADLINE_EXCEEDED: ")):
            block["text"] = text.split(":")[0]
        elif text:
            try:
                block["text"] = json.loads(text)
            except ValueError:
                pass
        blocks.append(block)
    result["content"] = blocks
    return result


async def call(client, tool, arguments, meta=None):
    told = []

    async def progress(_progress, _total, message):
        told.append(message)

    result = await client.call_tool(tool, arguments, progress_callback=progress, meta=meta)
    result = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    # The SDK hands notifications over in tasks of their own.
    logged = len((result.get("_meta") or {}).get("to.a11/log", ""))
    async with asyncio.timeout(10):
        while sum(map(len, told)) < logged:
            await asyncio.sleep(0)
    return result, told


async def check(mode, server, cases, deadline):
    faults = []

    def same(name, actual, expected):
        if actual != expected:
            faults.append(f"{name}:\n  expected {json.dumps(expected)}\n  actual   {json.dumps(actual)}")

    async with Client(server, mode=mode) as client:
        listed = await client.list_tools()
        tools = {t.name: t.model_dump(mode="json", by_alias=True, exclude_none=True) for t in listed.tools}
        same("schema_only is listed", "schema_only" in tools, False)
        for tool, arguments, expected in OWN_CASES:
            result, _ = await call(client, tool, arguments)
            for key, value in expected.items():
                same(f"{tool} {key}", result.get(key), value)
        try:
            await client.call_tool("no_such_tool", {})
            faults.append("an unknown tool is not refused")
        except MCPError as error:
            same("unknown tool", error.error.code, -32602)
        for expected in cases.get("tools", []):
            same(f"tool {expected['name']}", tools.get(expected["name"]), expected)
        for case in cases.get("calls", []):
            if case.get("deadline_ms") != deadline:
                continue
            name = f"call {case['tool']} {json.dumps(case['arguments'])}"
            result, told = await call(client, case["tool"], case["arguments"])
            same(name, comparable(result), comparable(case["result"]))
            same(f"{name} progress", told, case["progress"])
        for case in cases.get("headers_from_meta", []) if deadline is None else []:
            if {"progressToken", "progress_token"} & case["meta"].keys():
                continue  # the SDK's own to set
            result, _ = await call(client, "headers_seen", {}, meta=case["meta"])
            seen = result["structuredContent"]["seen"]
            same(f"headers of {json.dumps(case['meta'])}", seen, case["headers"])
    return faults


def main():
    arguments = sys.argv[1:]
    cases = {}
    if "--cases" in arguments:
        at = arguments.index("--cases")
        with open(arguments[at + 1], encoding="utf-8") as file:
            cases = json.load(file)
        del arguments[at : at + 2]
    deadline = None
    if "--deadline" in arguments:
        at = arguments.index("--deadline")
        deadline = int(arguments[at + 1])
        del arguments[at : at + 2]
    all_faults = []
    while arguments:
        end = arguments.index("--") if "--" in arguments else len(arguments)
        mode, target, *rest = arguments[:end]
        is_url = target.startswith("http://")
        server = target if is_url else StdioServerParameters(command=target, args=rest)
        faults = asyncio.run(check(mode, server, cases, deadline))
        all_faults += [f"{mode} {target}: {fault}" for fault in faults]
        del arguments[: end + 1]
    print("\n".join(all_faults) or "all the same")
    sys.exit(1 if all_faults else 0)


main()
