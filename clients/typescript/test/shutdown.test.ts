/** A service that shuts down: calls under way hear of it at once, not after the grace period. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, type StatusError } from "../src/index.js";
import { actions, seen, until } from "./support/actions.js";
import { startFrames } from "./support/frames.js";
import { startServer } from "./support/server.js";

/** Much less than the grace period, and much more than a busy machine takes. */
const AT_ONCE_MS = 20_000;

/** How a call fails, within the time. */
async function failure(call: Promise<unknown>): Promise<StatusError> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("the call still waits")), AT_ONCE_MS);
  });
  const failed = call.then(
    () => assert.fail("the call went well"),
    (error) => error as StatusError,
  );
  return Promise.race([failed, late]).finally(() => clearTimeout(timer));
}

test("a call that outlasts the service's shutdown ends UNAVAILABLE with it", async () => {
  const server = await startServer("--shutdown-timeout", "1s");
  const host = await connect(server.address, { registry: actions() });
  const client = await connect(server.address);
  try {
    const failed = failure(client.call("wait", { name: "shut down" }));
    await until(() => seen.started.includes("shut down"), "the handler's start");
    server.process.kill("SIGTERM");
    const { code, reason, message } = await failed;
    assert.deepEqual([code, reason], ["UNAVAILABLE", "PEER_LOST"], message);
    assert.match(message, /shutting down/);
    await until(() => seen.cancelled.includes("shut down UNAVAILABLE"), "the handler's end");
  } finally {
    await Promise.all([client.close(), host.close(), server.stop()]);
  }
});

test("the end of a session is heard where its connection goes at once", async () => {
  for (const how of ["told", "untold"] as const) {
    const service = await startFrames();
    const client = await connect(service.address);
    try {
      const failed = failure(client.call("any"));
      await service.called;
      service.shutDown(how);
      const { code, reason, message } = await failed;
      assert.deepEqual([code, reason], ["UNAVAILABLE", "PEER_LOST"], how);
      assert.match(message, /the service is shutting down/, how);
    } finally {
      await client.close();
      service.stop();
    }
  }
});
