/** Rounds whose connection breaks: those that are recorded are asked for again. */

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import * as z from "zod";
import { type Client, connect, type ExecuteEvent, Registry } from "../src/index.js";
import { until } from "./support/actions.js";
import { startProxy, type Proxy as TestProxy } from "./support/proxy.js";
import { type Server, startServer } from "./support/server.js";

let folder: string;
let server: Server;
let host: Client;
/** Runs of `slow` by its argument, and what lets them go on. */
const runs: string[] = [];
let goOn: () => void = () => {};

const registry = new Registry().action(
  { name: "slow", input: z.object({ which: z.string() }), output: z.string() },
  async ({ which }, { signal }) => {
    runs.push(which);
    await new Promise<void>((resolve) => {
      goOn = resolve;
      signal.addEventListener("abort", () => resolve());
    });
    return `did ${which}`;
  },
);

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "a11-grpc-"));
  server = await startServer("--store", join(folder, "a11.db"));
  host = await connect(server.address, { registry });
});

after(async () => {
  await host.close();
  await server.stop();
  await rm(folder, { recursive: true });
});

function reply(which: string) {
  const content = [{ type: "tool_use", id: "a", name: "slow", input: { which } }];
  return { type: "message", role: "assistant", content };
}

const recorded = (which: string) => ({
  allow: ["slow"],
  store: true,
  conversation: "rounds",
  interactionId: which,
});

/** Runs a test with a client behind a proxy. */
async function behindProxy(
  run: (client: Client, proxy: TestProxy) => Promise<void>,
): Promise<void> {
  const proxy = await startProxy(server.address);
  const client = await connect(proxy.address);
  try {
    await run(client, proxy);
  } finally {
    await client.close();
    await proxy.close();
  }
}

const runsOf = (which: string) => runs.filter((it) => it === which).length;

test("a recorded round is sent again where its connection breaks, and runs once", () =>
  behindProxy(async (client, proxy) => {
    const result = client.execute(reply("again"), recorded("again"));
    await until(() => runsOf("again") === 1, "the start");
    const connections = proxy.connections();
    proxy.cutUnnoticed();
    await until(() => proxy.connections() > connections, "another connection");
    proxy.refuse("refuse");
    proxy.cutUnnoticed();
    goOn();
    proxy.refuse("accept");
    const { results, messages } = await result;
    assert.equal(results[0]?.value, "did again");
    assert.equal(messages.length, 1);
    assert.equal(runsOf("again"), 1);
  }));

test("where the service noticed the break the calls were cancelled, and still ran once", () =>
  behindProxy(async (client, proxy) => {
    const result = client.execute(reply("noticed"), recorded("noticed"));
    await until(() => runsOf("noticed") === 1, "the start");
    proxy.cut();
    const { results } = await result;
    assert.equal(results[0]?.status.code, "CANCELLED");
    assert.equal(runsOf("noticed"), 1);
  }));

test("events of a round that is sent again are told once, the summary last", () =>
  behindProxy(async (client, proxy) => {
    const events: ExecuteEvent[] = [];
    for await (const event of client.executeStream(reply("events"), recorded("events"))) {
      events.push(event);
      if (event.type === "started") {
        // Its handler may hear of it later than this.
        await until(() => runsOf("events") === 1, "the start");
        proxy.cutUnnoticed();
        goOn();
      }
    }
    assert.deepEqual(
      events.map(({ type }) => type).filter((type) => type !== "narrated" && type !== "produced"),
      ["started", "ended", "summary"],
    );
    const last = events.at(-1);
    assert.equal(last?.type === "summary" && last.result.results[0]?.value, "did events");
    assert.equal(runsOf("events"), 1);
  }));

test("a round that is not recorded is not sent again, and the error says what would be", () =>
  behindProxy(async (client, proxy) => {
    const failed = assert.rejects(client.execute(reply("once"), { allow: "slow" }), {
      name: "StatusError",
      code: "UNAVAILABLE",
      reason: "UNSPECIFIED",
      message: /is not known.*store/,
    });
    await until(() => runsOf("once") === 1, "the start");
    proxy.cut();
    await failed;
    assert.equal(runsOf("once"), 1);
  }));

test("a round is sent again no longer than its timeout, or its signal, says", () =>
  behindProxy(async (client, proxy) => {
    proxy.refuse("refuse");
    proxy.cut();
    await assert.rejects(client.execute(reply("late"), { ...recorded("late"), timeout: 300 }), {
      code: "UNAVAILABLE",
    });
    const abort = new AbortController();
    const aborted = client.execute(reply("late"), { ...recorded("late"), signal: abort.signal });
    abort.abort(new Error("enough"));
    await assert.rejects(aborted, { code: "CANCELLED", reason: "CANCELLED" });
    assert.equal(runsOf("late"), 0);
  }));
