/** Pages in a real Chromium: a service that goes and comes back, nodes, origins, an end. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createServer, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, type TestContext, test } from "node:test";
import { build } from "esbuild";
import { type Browser, chromium, type Page } from "playwright-core";
import { connect, StatusError } from "../src/index.js";
import { startProxy } from "./support/proxy.js";
import { atRoot, startServer } from "./support/server.js";

let browser: Browser | undefined;
let pages: HttpServer;
let port: number;

before(async () => {
  let executablePath: string;
  try {
    const script = atRoot("clients/typescript/find-chromium.sh");
    executablePath = execFileSync(script, { encoding: "utf8" }).trim();
  } catch {
    assert.notEqual(process.env.CI, "true", "CI needs a Chromium");
    return;
  }
  const { outputFiles } = await build({
    stdin: {
      contents: `import { connect, Registry, stream } from "./src/web.ts";
        import * as z from "zod";
        globalThis.a11 = { connect, Registry, stream, z };`,
      resolveDir: atRoot("clients/typescript"),
    },
    bundle: true,
    format: "esm",
    platform: "browser",
    write: false,
  });
  const script = outputFiles[0]?.text ?? "";
  pages = createServer((request, response) => {
    const isScript = request.url === "/a11.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? script : '<script type="module" src="/a11.js"></script>');
  });
  await new Promise<void>((resolve) => pages.listen(0, resolve));
  port = (pages.address() as AddressInfo).port;
  browser = await chromium.launch({
    executablePath,
    args: [
      "--host-resolver-rules=MAP elsewhere.test 127.0.0.1",
      ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
    ],
  });
});

after(async () => {
  await browser?.close();
  pages?.close();
});

/** A page that has the package as `a11`; `undefined`, and the test skipped, without a browser. */
async function openPage(t: TestContext, host = "127.0.0.1"): Promise<Page | undefined> {
  if (browser === undefined) {
    t.skip("no Chromium here: name one with A11_CHROMIUM");
    return undefined;
  }
  const page = await browser.newPage();
  page.on("pageerror", (error) => assert.fail(`unhandled in the page: ${error.message}`));
  await page.goto(`http://${host}:${port}/`);
  await page.waitForFunction("globalThis.a11 !== undefined");
  return page;
}

const HOSTING = `async (url) => {
  const { connect, Registry, z } = a11;
  const registry = new Registry().action(
    { name: "of_page", input: z.object({ n: z.int() }), output: z.int() },
    ({ n }) => n + 1,
  );
  globalThis.client = await connect(url, { registry });
  return client.sessionId;
}`;

test("a page's functions and its calls outlive broken connections", async (t) => {
  const page = await openPage(t);
  if (page === undefined) {
    return;
  }
  const server = await startServer();
  const proxy = await startProxy(server.address);
  const caller = await connect(server.address);
  const session = await page.evaluate(`(${HOSTING})("http://${proxy.address}")`);
  for (let n = 0; n < 5; n++) {
    const called = caller.call("of_page", { n });
    proxy.cut();
    assert.equal(await called, n + 1);
    assert.equal(await page.evaluate(`client.call("of_page", { n: ${n} })`), n + 1);
  }
  assert.equal(await page.evaluate("client.sessionId"), session);
  await caller.close();
  await page.close();
  await proxy.close();
  await server.stop();
});

test("a service that goes and comes back serves a page's functions again", async (t) => {
  const page = await openPage(t);
  if (page === undefined) {
    return;
  }
  const first = await startServer();
  const targets = { now: first.address };
  const proxy = await startProxy(() => targets.now);
  const session = await page.evaluate(`(${HOSTING})("http://${proxy.address}")`);
  proxy.refuse("refuse");
  await first.stop();
  const failed = await page.evaluate(
    `client.execute({ type: "message", role: "assistant", content: [] }).catch((it) => it.code)`,
  );
  assert.equal(failed, "UNAVAILABLE");
  const second = await startServer();
  targets.now = second.address;
  proxy.refuse("accept");
  const caller = await connect(second.address);
  const names = async () => (await caller.actions("of_page")).length;
  for (let tries = 0; (await names()) === 0; tries++) {
    assert.ok(tries < 500, "the page's function did not come back");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.equal(await caller.call("of_page", { n: 1 }), 2);
  assert.equal(await page.evaluate(`client.call("of_page", { n: 2 })`), 3);
  assert.notEqual(await page.evaluate("client.sessionId"), session);
  await caller.close();
  await page.close();
  await proxy.close();
  await second.stop();
});

test("a page reads a node as it is written, from a place on and over broken connections", async (t) => {
  const page = await openPage(t);
  if (page === undefined) {
    return;
  }
  const server = await startServer();
  const proxy = await startProxy(server.address);
  const writer = await connect(server.address);
  const session = await writer.openSession();
  const node = await writer.writeNode("notes");
  await page.evaluate(`(async (url, session) => {
    globalThis.client = await a11.connect(url);
    globalThis.values = [];
    const read = async () => {
      for await (const value of client.readNode("notes", { session })) values.push(value);
    };
    globalThis.read = read();
  })("http://${proxy.address}", "${session}")`);
  const values = Array.from({ length: 20 }, (_, at) => (at % 2 === 0 ? `text ${at}` : { at }));
  for (const [at, value] of values.entries()) {
    await node.write(value);
    // It is there before anything else is written.
    await page.waitForFunction(`values.length === ${at + 1}`);
    if (at % 5 === 0) {
      proxy.cut();
    }
  }
  await node.finish();
  await page.evaluate("read");
  assert.deepEqual(await page.evaluate("values"), values);
  const reading = (name: string, offset: number) =>
    page.evaluate(`(async () => {
      const values = [];
      try {
        const options = { session: "${session}", offset: ${offset} };
        for await (const value of client.readNode("${name}", options)) values.push(value);
      } catch (error) {
        values.push(error.code + ": " + error.message);
      }
      return values;
    })()`);
  assert.deepEqual(await reading("notes", 18), values.slice(18));
  const failing = await writer.writeNode("failing");
  await failing.write("a");
  await failing.fail(new StatusError("DATA_LOSS", "disk went away"));
  assert.deepEqual(await reading("failing", 0), ["a", "DATA_LOSS: disk went away"]);
  const refused = await page.evaluate(`client.writeNode("mine").catch((it) => it.code)`);
  assert.equal(refused, "UNIMPLEMENTED");
  await writer.close();
  await page.close();
  await proxy.close();
  await server.stop();
});

test("a page of an origin that is refused is told how to allow it", async (t) => {
  const page = await openPage(t, "elsewhere.test");
  if (page === undefined) {
    return;
  }
  const origin = `http://elsewhere.test:${port}`;
  const trying = (address: string) =>
    page.evaluate(`a11.connect("http://${address}").then(
      (client) => client.openSession().then(() => "OK"),
      ({ code, message }) => code + ": " + message,
    )`);
  const closed = await startServer();
  const said = await trying(closed.address);
  assert.equal(
    said,
    `PERMISSION_DENIED: http://${closed.address} does not take requests of pages of ${origin}; start it with --allow-origin ${origin}`,
  );
  await closed.stop();
  assert.match(String(await trying(closed.address)), /^UNAVAILABLE: cannot reach .*is it there/);
  const open = await startServer("--allow-origin", origin);
  assert.equal(await trying(open.address), "OK");
  await page.close();
  await open.stop();
});

test("a page that is closed, or goes elsewhere, takes its functions with it", async (t) => {
  const page = await openPage(t);
  if (page === undefined) {
    return;
  }
  const server = await startServer();
  const caller = await connect(server.address);
  const there = async () => (await caller.actions("of_page")).length > 0;
  const gone = async () => {
    const since = performance.now();
    while (await there()) {
      assert.ok(performance.now() - since < 5_000, "its function is still there");
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  await page.evaluate(`(${HOSTING})("http://${server.address}")`);
  assert.ok(await there());
  await page.goto("about:blank");
  await gone();
  await page.goto(`http://127.0.0.1:${port}/`);
  await page.waitForFunction("globalThis.a11 !== undefined");
  await page.evaluate(`(${HOSTING})("http://${server.address}")`);
  assert.ok(await there());
  await page.close();
  await gone();
  await caller.close();
  await server.stop();
});
