// Calls a second and fragments a second over one session, echoed by an action that another
// process hosts, and what each costs this process in time of the processor:
// `npm run build && A11_SERVER=… node benches/session.mjs`.

import { fork, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { bytes, connect, Registry, stream } from "a11-grpc";
import * as z from "zod";

const SECONDS = Number(process.env.SECONDS ?? 3);

const registry = new Registry()
  .action(
    { name: "echo", input: z.object({ text: z.string() }), output: z.string() },
    ({ text }) => text,
  )
  .action(
    { name: "echo_all", input: z.object({ pieces: stream(bytes()) }), output: stream(bytes()) },
    ({ pieces }) => pieces,
  );

if (process.argv[2] === "host") {
  await connect(process.argv[3], { registry });
  process.send("ready");
} else {
  await main();
}

async function main() {
  const root = fileURLToPath(new URL("../../../", import.meta.url));
  const program = process.env.A11_SERVER ?? `${root}target/debug/a11-grpc`;
  const server = spawn(program, ["serve", "--listen", "127.0.0.1:0"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const address = await listening(server.stderr);
  const host = fork(fileURLToPath(import.meta.url), ["host", address]);
  await once(host, "message");
  const client = await connect(address);
  await calls(client, 1);
  for (const inFlight of [1, 64]) {
    const { rate, micros } = await measured(() => calls(client, inFlight));
    console.log(`calls, ${inFlight} in flight: ${round(rate)}/s, ${round(micros)} µs each`);
  }
  for (const size of [16, 1024, 64 * 1024]) {
    const { rate, micros } = await measured(() => fragments(client, size));
    const bytes = round((rate * size) / 1e6);
    console.log(
      `fragments of ${size} B echoed: ${round(rate)}/s, ${bytes} MB/s, ${round(micros)} µs each`,
    );
  }
  await client.close();
  host.kill();
  server.kill();
}

async function listening(stderr) {
  for await (const line of createInterface({ input: stderr })) {
    const match = /listening on (\S+:\d+)/.exec(line);
    if (match) {
      stderr.resume();
      return match[1];
    }
  }
  throw new Error("the service ended");
}

/** A rate, and what one of its things costs. */
async function measured(run) {
  const cpu = process.cpuUsage();
  const began = performance.now();
  const count = await run();
  const { user, system } = process.cpuUsage(cpu);
  return { rate: count / ((performance.now() - began) / 1000), micros: (user + system) / count };
}

async function calls(client, inFlight) {
  const until = performance.now() + SECONDS * 1000;
  let done = 0;
  const worker = async () => {
    while (performance.now() < until) {
      await client.call("echo", { text: "hello" });
      done++;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
  return done;
}

async function fragments(client, size) {
  const piece = new Uint8Array(size);
  const until = performance.now() + SECONDS * 1000;
  async function* pieces() {
    while (performance.now() < until) {
      yield piece;
    }
  }
  let received = 0;
  for await (const _ of client.stream("echo_all", { pieces: pieces() })) {
    received++;
  }
  return received;
}

function round(number) {
  return number < 100 ? number.toFixed(1) : Math.round(number).toLocaleString("en");
}
