/** Actions of every kind of signature, that tests host and call. */

import * as z from "zod";
import { bytes, Chunk, Registry, StatusError, stream } from "../../src/index.js";

/** What the running handlers did, for a test to look at. */
export const seen = { cancelled: [] as string[], started: [] as string[] };

/** Resolves when something holds; fails after some seconds. */
export async function until(holds: () => boolean, what: string): Promise<void> {
  const give = Date.now() + 20_000;
  while (!holds()) {
    if (Date.now() > give) {
      throw new Error(`not in time: ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

export function actions(): Registry {
  return new Registry()
    .action(
      {
        name: "greet",
        description: "Greets somebody.",
        input: z.object({
          who: z.string().describe("Whom to greet."),
          times: z.int().min(1).default(1),
          title: z.string().optional(),
        }),
        output: z.string(),
      },
      async ({ who, times, title }, context) => {
        context.log(`Greeting ${who}.`);
        context.logInternal("the operator's", { level: "debug", channel: "db" });
        return `Hello, ${title === undefined ? "" : `${title} `}${who}! `.repeat(times).trim();
      },
    )
    .action({ name: "nothing", description: "Takes and gives nothing." }, () => {})
    .action(
      { name: "count", input: z.object({ n: z.int() }), output: z.int() },
      async function* ({ n }) {
        for (let at = 0; at < n; at++) {
          yield at;
        }
      },
    )
    .action(
      {
        name: "upper",
        input: z.object({ words: stream(z.string()) }),
        output: stream(z.string()),
      },
      async function* ({ words }) {
        for await (const word of words) {
          yield word.toUpperCase();
        }
      },
    )
    .action(
      {
        name: "sum",
        input: z.object({ numbers: stream(z.number()), scale: z.number().default(1) }),
        output: z.number(),
      },
      async ({ numbers, scale }) => {
        let sum = 0;
        for await (const number of numbers) {
          sum += number * scale;
        }
        return sum;
      },
    )
    .action(
      {
        name: "several",
        input: z.object({ word: z.string() }),
        outputs: { length: z.int(), letters: stream(z.string()), upper: z.string().optional() },
      },
      ({ word }) => ({
        length: word.length,
        letters: [...word],
        ...(word === "" ? {} : { upper: word.toUpperCase() }),
      }),
    )
    .action(
      {
        name: "by_hand",
        input: z.object({ n: z.int() }),
        outputs: { first: stream(z.int()), second: stream(z.int()) },
      },
      async ({ n }, context) => {
        for (let at = 0; at < n; at++) {
          await context.write(at % 2 === 0 ? "first" : "second", at);
        }
        await context.finish("first");
      },
    )
    .action(
      {
        name: "picture",
        input: z.object({ pixels: bytes("image/png") }),
        output: bytes("image/png"),
      },
      ({ pixels }) => new Chunk("image/png", pixels.data.slice().reverse()),
    )
    .action(
      { name: "any", input: z.object({ value: z.any() }), output: z.any() },
      ({ value }) => value,
    )
    .action(
      {
        name: "described",
        input: z.object({
          order: z.object({ id: z.string(), items: z.array(z.string()).optional() }),
        }),
        output: z.object({ keys: z.array(z.string()) }),
      },
      ({ order }) => ({ keys: Object.keys(order).sort() }),
    )
    .action(
      { name: "header", headers: { "X-Tenant": { default: "nobody" } }, output: z.string() },
      (_, { headers }) => `${headers.text("x-tenant")} ${headers.text("x-a11-trace") ?? "-"}`,
    )
    .action(
      {
        name: "fail",
        input: z.object({ how: z.enum(["status", "error", "output"]) }),
        output: z.string(),
      },
      ({ how }) => {
        if (how === "status") {
          throw new StatusError("NOT_FOUND", "no such order");
        }
        if (how === "error") {
          throw new RangeError("out of cheese");
        }
        return 5 as unknown as string;
      },
    )
    .action({ name: "forgets", output: z.string() }, () => {})
    .action(
      { name: "half_failed", outputs: { lines: stream(z.string()), total: z.int() } },
      async (_, context) => {
        await context.write("lines", "one");
        context.fail("lines", { code: "DATA_LOSS", message: "disk went away" });
        context.fail("total", new StatusError("ABORTED", "nothing to count"));
      },
    )
    .action(
      { name: "partial", input: z.object({ words: z.array(z.string()) }), output: z.string() },
      async function* ({ words }) {
        yield* words;
        throw new StatusError("DATA_LOSS", "disk went away");
      },
    )
    .action(
      { name: "wait", input: z.object({ name: z.string().default("wait") }), output: z.string() },
      async ({ name }, { signal }) => {
        seen.started.push(name);
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        seen.cancelled.push(`${name} ${(signal.reason as StatusError).code}`);
        return "late";
      },
    )
    .action(
      { name: "ticks", input: z.object({ every: z.int().default(5) }), output: z.int() },
      async function* ({ every }, { signal }) {
        seen.started.push("ticks");
        for (let at = 0; !signal.aborted; at++) {
          yield at;
          await new Promise((resolve) => setTimeout(resolve, every));
        }
        seen.cancelled.push("ticks");
      },
    )
    .action({ name: "left", output: z.number() }, (_, context) => context.timeLeft() ?? -1)
    .action(
      { name: "nested", input: z.object({ action: z.string(), args: z.any() }), output: z.any() },
      ({ action, args }, context) => context.call(action, args as Record<string, unknown>),
    )
    .action(
      { name: "who_called", output: z.string() },
      (_, context) => `${context.action} ${context.id}`,
    );
}
