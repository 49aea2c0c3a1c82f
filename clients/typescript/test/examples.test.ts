/** The examples run, and do what they say. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { chromium } from "playwright-core";
import * as z from "zod";
import { connect, Registry } from "../src/index.js";
import { runNode } from "./support/program.js";
import { atRoot, startServer } from "./support/server.js";

test("the peer hosts its actions, and calls one of another peer", async () => {
  const server = await startServer();
  const python = new Registry().action(
    { name: "py_shout", input: z.object({ text: z.string() }), output: z.string() },
    ({ text }) => text.toUpperCase(),
  );
  const client = await connect(server.address, { registry: python });
  const peer = runNode(["examples/typescript/peer.mjs", server.address]);
  await peer.says(/ready/);
  assert.equal(await client.call("ts_reverse", { text: "ab😀" }), "😀ba");
  assert.deepEqual(await client.call("ts_words", { text: " a  bc " }), ["a", "bc"]);
  assert.equal(await client.call("ts_ask_py", { text: "hi" }), "Python says: HI");
  peer.process.kill("SIGTERM");
  assert.equal(await peer.ended, 0);
  await client.close();
  await server.stop();
});

test("the agent's loop runs the calls of every provider's reply", async () => {
  const server = await startServer("--config", "examples/actions.toml");
  const agent = runNode(["examples/typescript/agent.mjs", server.address]);
  assert.equal(await agent.ended, 0, agent.said());
  const lines = agent.said().trim().split("\n");
  assert.equal(lines.length, 7, agent.said());
  for (const line of lines) {
    assert.match(line, /: word_count OK, order_status NOT_FOUND, disk_usage OK; \d+ messages$/);
  }
  await server.stop();
});

test("the page calls a streaming action and hosts one, which interactions call", async (t) => {
  let browserPath: string;
  try {
    const script = atRoot("clients/typescript/find-chromium.sh");
    browserPath = execFileSync(script, { encoding: "utf8" }).trim();
  } catch {
    assert.notEqual(process.env.CI, "true", "CI needs a Chromium");
    t.skip("no Chromium here: name one with A11_CHROMIUM");
    return;
  }
  const server = await startServer("--config", "examples/actions.toml");
  const pages = runNode(["examples/browser/serve.mjs", "0"]);
  const [, url = ""] = await pages.says(/(http:\S+) /);
  const browser = await chromium.launch({
    executablePath: browserPath,
    args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
  });
  const client = await connect(server.address);
  try {
    const page = await browser.newPage();
    const said: string[] = [];
    page.on("console", (message) => said.push(message.text()));
    page.on("pageerror", (error) => said.push(error.message));
    await page.goto(`${url}?server=http://${server.address}`);
    const state = page.locator("#state");
    await state.filter({ hasText: /ready|failed/ }).waitFor();
    assert.equal(await state.textContent(), "ready: OK, 1 notes", said.join("\n"));
    const disk = await page.locator("#disk li").allTextContents();
    assert.match(disk[0] ?? "", /^Filesystem/);
    const content = [
      { type: "tool_use", id: "a", name: "page_note", input: { text: "from Node" } },
      { type: "tool_use", id: "b", name: "page_note", input: { text: 5 } },
    ];
    const reply = { type: "message", role: "assistant", content };
    const { results } = await client.execute(reply, { allow: ["page_note"] });
    assert.deepEqual(
      results.map(({ status, value, log }) => [status.code, value, log]),
      [
        ["OK", "2 notes", "Noted on a11-grpc in a browser."],
        ["INVALID_ARGUMENT", undefined, ""],
      ],
    );
    assert.deepEqual(await page.locator("#notes li").allTextContents(), [
      "from the page's model",
      "from Node",
    ]);
  } finally {
    await browser.close();
    await client.close();
    pages.process.kill();
    await server.stop();
  }
});
