// The official TypeScript SDK's client against our MCP server.
//
//     typescript_client.mjs (URL | PROGRAM ARGUMENT…) [--cases FILE]
//
// Lists the tools, calls some of them, and with --cases every recorded call;
// prints each difference, and ends with 1 where there is one. The SDK validates
// structured content against the declared schema by itself.

import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const faults = [];

function same(name, actual, expected) {
  if (isDeepStrictEqual(actual, expected)) return;
  faults.push(`${name}:\n  expected ${JSON.stringify(expected)}\n  actual   ${JSON.stringify(actual)}`);
}

/** JSON text as JSON, free wording left out, what the newest version adds too. */
function comparable({ resultType: _, _meta, content, isError, ...rest }) {
  const result = { ...rest };
  const meta = Object.entries(_meta ?? {}).filter(([key]) => !key.startsWith("io.modelcontextprotocol/"));
  if (meta.length > 0) result._meta = Object.fromEntries(meta);
  if (isError) result.isError = true;
  result.content = content.map((block) => {
    if (typeof block.text !== "string") return block;
    if (/^(INVALID_ARGUMENT|DEADLINE_EXCEEDED): /.test(block.text)) {
      return { ...block, text: block.text.split(":")[0] };
    }
    try {
      return { ...block, text: JSON.parse(block.text) };
    } catch {
      return block;
    }
  });
  return result;
}

async function call(client, name, args) {
  const told = [];
  const onprogress = ({ message }) => told.push(message);
  const result = await client.callTool({ name, arguments: args }, undefined, { onprogress });
  return [result, told];
}

async function check(client, cases) {
  const { tools } = await client.listTools();
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  same("schema_only is listed", byName.has("schema_only"), false);
  const [echoed] = await call(client, "echo", { word: "hello" });
  same("echo", echoed.structuredContent, { echoed: "hello" });
  const [picture] = await call(client, "picture", { caption: "c" });
  same("picture", picture.content[1].mimeType, "image/png");
  const [failed] = await call(client, "fail_with", { code: "NOT_FOUND", message: "no such order" });
  same("fail_with", [failed.isError, failed.structuredContent], [true, undefined]);
  const [big] = await call(client, "big", { bytes: 2_000_000 });
  same("big", big._meta["to.a11/cut"], 2_000_011);
  try {
    await client.callTool({ name: "no_such_tool", arguments: {} });
    faults.push("an unknown tool is not refused");
  } catch (error) {
    same("unknown tool", error.code, -32602);
  }

  // A call that is given up is over at the server too: the next one is answered.
  const abort = new AbortController();
  const slow = client.callTool({ name: "slow", arguments: { millis: 60_000 } }, undefined, {
    signal: abort.signal,
  });
  abort.abort("enough");
  same("a call given up", await slow.then(() => "answered", () => "over"), "over");
  const [after] = await call(client, "echo", { word: "on" });
  same("after a call given up", after.structuredContent, { echoed: "on" });

  for (const expected of cases.tools ?? []) {
    same(`tool ${expected.name}`, byName.get(expected.name), expected);
  }
  for (const { tool, arguments: args, deadline_ms, result, progress } of cases.calls ?? []) {
    if (deadline_ms !== undefined) continue;
    const name = `call ${tool} ${JSON.stringify(args)}`;
    const [actual, told] = await call(client, tool, args);
    same(name, comparable(actual), comparable(result));
    // What comes in one piece with the result the SDK drops: a beginning is right.
    same(`${name} progress`, told, progress.slice(0, told.length));
  }
}

const args = process.argv.slice(2);
let cases = {};
const at = args.indexOf("--cases");
if (at >= 0) {
  cases = JSON.parse(readFileSync(args[at + 1], "utf8"));
  args.splice(at, 2);
}
const [target, ...rest] = args;
const transport = target.startsWith("http://")
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args: rest });
const client = new Client({ name: "interop", version: "1" });
await client.connect(transport);
await check(client, cases);
await client.close();
console.log(faults.join("\n") || "all the same");
process.exit(faults.length > 0 ? 1 : 0);
