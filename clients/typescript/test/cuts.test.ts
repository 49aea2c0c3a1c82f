/** Broken connections: resumed without a loss, and sessions that are lost for good. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, Registry, type StatusError } from "../src/index.js";
import { actions, seen, until } from "./support/actions.js";
import { startProxy } from "./support/proxy.js";
import { startServer, startServerAt } from "./support/server.js";

/** Runs with a service behind a proxy; the host is connected through it too. */
async function behindProxy(
  run: (parts: {
    proxy: Awaited<ReturnType<typeof startProxy>>;
    server: Awaited<ReturnType<typeof startServer>>;
    client: Awaited<ReturnType<typeof connect>>;
    host: Awaited<ReturnType<typeof connect>>;
  }) => Promise<void>,
): Promise<void> {
  const server = await startServer();
  const proxy = await startProxy(server.address);
  const host = await connect(proxy.address, { registry: actions(), name: "host" });
  const client = await connect(proxy.address, { name: "caller" });
  try {
    await run({ proxy, server, client, host });
  } finally {
    await Promise.all([client.close(), host.close()]);
    await proxy.close();
    await server.stop();
  }
}

/** What a call fails with; `undefined` where it does not. */
function failureOf(call: Promise<unknown>): Promise<StatusError | undefined> {
  return call.then(
    () => undefined,
    (error) => error,
  );
}

const CUTS = 100;

test("a hundred cuts while calls stream both ways lose nothing and repeat nothing", () =>
  behindProxy(async ({ proxy, client, host }) => {
    let isOver = false;
    let streaming = 0;
    const streams = Array.from({ length: 4 }, async (_, place) => {
      let sent = 0;
      let received = 0;
      async function* words() {
        while (!isOver) {
          yield `word-${place}-${sent++}`;
          // Enough is on its way for every cut to hit something.
          while (sent - received > 100) {
            await new Promise((resolve) => setTimeout(resolve, 2));
          }
        }
      }
      for await (const word of client.stream("upper", { words: words() })) {
        assert.equal(word, `WORD-${place}-${received++}`);
        streaming += received === 1 ? 1 : 0;
      }
      assert.equal(received, sent);
      return received;
    });
    const echoed = Promise.all(streams);
    await Promise.race([echoed, until(() => streaming === streams.length, "all stream")]);
    const session = client.sessionId;
    const before = host.sessionId;
    for (let cut = 0; cut < CUTS; cut++) {
      const made = proxy.connections();
      proxy.cut();
      // The next cut is of a connection that was made after this one.
      await until(() => proxy.connections() >= made + 2, `both are back after cut ${cut}`);
      await new Promise((resolve) => setTimeout(resolve, (cut * 7) % 25));
    }
    isOver = true;
    const counts = await echoed;
    assert.equal(client.sessionId, session);
    assert.equal(host.sessionId, before);
    console.log(`${CUTS} cuts, ${counts.reduce((sum, count) => sum + count, 0)} words echoed`);
  }));

test("calls that run do not notice a connection that is away for a while", () =>
  behindProxy(async ({ proxy, client }) => {
    const call = await client.start("upper");
    await call.write("words", "before");
    proxy.refuse("refuse");
    proxy.cut();
    await call.write("words", "while away");
    await new Promise((resolve) => setTimeout(resolve, 300));
    proxy.refuse("accept");
    await call.write("words", "after");
    await call.close("words");
    assert.deepEqual(await call.result(), ["BEFORE", "WHILE AWAY", "AFTER"]);
  }));

test("a session that the service does not know any more is opened anew, and hosts again", () =>
  behindProxy(async ({ proxy, client, server, host }) => {
    assert.equal(await client.call("greet", { who: "a" }), "Hello, a!");
    const before = host.sessionId;
    const waiting = failureOf(client.call("wait", { name: "lost" }));
    await until(() => seen.started.includes("lost"), "the handler's start");
    // A service at the same address that has never heard of the sessions.
    await server.stop();
    const next = await startServerAt(server.address);
    try {
      const error = await waiting;
      assert.deepEqual([error?.code, error?.reason], ["UNAVAILABLE", "PEER_LOST"]);
      await until(() => host.sessionId !== undefined && host.sessionId !== before, "a new session");
      proxy.cut();
      await until(() => seen.cancelled.includes("lost UNAVAILABLE"), "the handler's end");
      assert.equal(await client.call("greet", { who: "b" }), "Hello, b!");
    } finally {
      await next.stop();
    }
  }));

test("what is added to a registry, or removed, is published while the session is open", () =>
  behindProxy(async ({ client, host }) => {
    const registry = actions();
    registry.remove("greet");
    // The names are held by the other session with the same schemas: they are shared.
    assert.deepEqual(await host.host(registry), new Map());
    registry.action({ name: "late" }, () => {});
    const isServed = async (name: string) =>
      client.schema(name).then(
        () => true,
        () => false,
      );
    let served = false;
    for (let tries = 0; tries < 200 && !served; tries++) {
      served = await isServed("late");
    }
    assert.ok(served);
    assert.equal(await client.call("late"), undefined);
    registry.remove("late");
    const error = await failureOf(client.call("late"));
    assert.equal(error?.code, "NOT_FOUND");
  }));

test("names that are taken are refused, with the reason", () =>
  behindProxy(async ({ proxy, client, host }) => {
    const told: string[] = [];
    const registry = new Registry()
      .action({ name: "greet", description: "Another one." }, () => {})
      .action({ name: "mine" }, () => {});
    const other = await connect(proxy.address, {
      registry,
      onRefused: (name, { code, reason }) => told.push(`${name} ${code} ${reason}`),
    });
    assert.deepEqual(told, ["greet ALREADY_EXISTS NAME_TAKEN"]);
    assert.deepEqual([...other.refused.keys()], ["greet"]);
    const refused = await other.host(registry);
    assert.deepEqual(
      [...refused].map(([name, { reason }]) => [name, reason]),
      [["greet", "NAME_TAKEN"]],
    );
    assert.equal(await client.call("mine"), undefined);
    await other.close();
    assert.equal(host.refused.size, 0);
  }));

test("a client whose service is away is closed at once", () =>
  behindProxy(async ({ proxy }) => {
    const other = await connect(proxy.address, { registry: new Registry() });
    proxy.refuse("refuse");
    proxy.cut();
    await until(() => other.sessionId !== undefined, "a session");
    const began = performance.now();
    await other.close();
    const took = performance.now() - began;
    assert.ok(took < 1500, `${took} ms`);
    proxy.refuse("accept");
  }));
