/** The fixture actions of the recorded cases, hosted by this package. */

import * as z from "zod";
import {
  bytes,
  Chunk,
  Code,
  type CodeName,
  Registry,
  StatusError,
  stream,
} from "../../src/index.js";
import { decodeBase64 } from "../../src/wire/base64.js";

const FRAME =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNQaPgPAAJjAaB56d6tAAAAAElFTkSuQmCC";
const FRAME2 =
  "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAADUlEQVR4nGNQaPgPRAAJogM/KPz0VQAAAABJRU5ErkJggg==";
const CLIP = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

const media = (mediaType: string, text: string) =>
  new Chunk(mediaType, decodeBase64(text) ?? new Uint8Array());
const words = (text: string) => text.split(/\s+/).filter((word) => word !== "");
const text = z.string();
const maybe = z.string().optional();

export function fixtures(): Registry {
  const registry = new Registry();
  texts(registry);
  documents(registry);
  pictures(registry);
  failures(registry);
  numbers(registry);
  return registry;
}

function texts(registry: Registry): void {
  registry
    .action(
      {
        name: "echo",
        description: "Echo a word back.",
        input: z.object({ word: text.describe("What to say.") }),
        outputs: { echoed: text },
      },
      ({ word }) => ({ echoed: word }),
    )
    .action(
      {
        name: "split_words",
        description: "Emit the words of a line.",
        input: z.object({ text }),
        outputs: { words: stream(text).optional() },
      },
      (args) => ({ words: words(args.text) }),
    )
    .action(
      {
        name: "counted",
        description: "Words of a line and their number.",
        input: z.object({ text, parts: stream(text.describe("Extra parts.")).optional() }),
        outputs: { words: stream(text).optional(), total: z.int().optional() },
      },
      async (args, context) => {
        let total = 0;
        for (const word of words(args.text)) {
          await context.write("words", word);
          total++;
        }
        for await (const part of args.parts ?? []) {
          await context.write("words", part);
          total++;
        }
        return { total };
      },
    )
    .action(
      {
        name: "narrate",
        description: "Log, then answer.",
        input: z.object({ topic: text }),
        outputs: { result: maybe },
      },
      ({ topic }, context) => {
        context.log(`Looked up ${topic}.\n\n2 lines of output.`);
        context.log("resolved the shell", { internal: true });
        context.log(" Then summarised it.");
        return { result: topic.toUpperCase() };
      },
    )
    .action(
      {
        // What is autofilled is the host's own: no port of what it publishes.
        name: "who_am_i",
        description: "Uses an input the caller cannot set.",
        input: z.object({ question: text }),
        outputs: { answer: maybe },
      },
      ({ question }) => ({ answer: `${question} user-7` }),
    )
    .action(
      {
        name: "unicode_keys",
        description: "Reverse a text by code point.",
        input: z.object({ text }),
        outputs: { reversed_text: maybe },
      },
      (args) => ({ reversed_text: [...args.text].reverse().join("") }),
    )
    .action(
      { name: "no_outputs", description: "Returns nothing.", input: z.object({ word: maybe }) },
      () => {},
    )
    .action(
      {
        name: "leaves_open",
        description: "Never finalizes its output.",
        outputs: { words: stream(text).optional() },
      },
      () => ({ words: ["one", "two"] }),
    );
}

function documents(registry: Registry): void {
  registry
    .action(
      {
        name: "order_status",
        description: "Status of an order.",
        input: z.object({ order_id: text }),
        outputs: { status: maybe, debug: maybe },
        outputToJsonField: { status: "order_status" },
      },
      ({ order_id }) => ({ status: `${order_id}: delayed`, debug: "looked at shard 3" }),
    )
    .action(
      {
        name: "whole_document",
        description: "The whole result is one document.",
        input: z.object({ query: text }),
        outputs: { result: z.object({ q: text, hits: z.int() }).optional() },
        outputToJsonField: { result: "$" },
      },
      ({ query }) => ({ result: { q: query, hits: 2 } }),
    )
    .action(
      {
        name: "whole_string",
        input: z.object({ query: text }),
        outputs: { result: maybe },
        outputToJsonField: { result: "$" },
      },
      ({ query }) => ({ result: `answer to ${query}` }),
    )
    .action(
      {
        name: "options",
        description: "One array value on a unary port.",
        input: z.object({ options: z.array(text) }),
        outputs: { count: z.int().optional() },
      },
      ({ options }) => ({ count: options.length }),
    )
    .action(
      {
        name: "describe_object",
        description: "Sorted keys of an object.",
        input: z.object({ thing: z.any() }),
        outputs: { keys: z.array(text).optional() },
      },
      ({ thing }) => ({ keys: Object.keys(thing as object).sort() }),
    );
}

function pictures(registry: Registry): void {
  const picture = bytes("image/png").optional();
  registry
    .action(
      {
        name: "picture",
        description: "A picture and its legend.",
        input: z.object({ caption: text }),
        outputs: { frame: picture, legend: z.any().optional() },
      },
      ({ caption }) => ({
        frame: media("image/png", FRAME),
        legend: { caption, floor_index: 0 },
      }),
    )
    .action(
      {
        name: "picture_only",
        description: "Nothing but a picture.",
        outputs: { frame: picture },
      },
      () => ({ frame: media("image/png", FRAME) }),
    )
    .action(
      {
        name: "two_pictures",
        description: "Two frames on one port.",
        outputs: { frames: stream(bytes("image/png")).optional() },
      },
      () => ({ frames: [media("image/png", FRAME), media("image/png", FRAME2)] }),
    )
    .action(
      {
        name: "sound",
        description: "A sound and its title.",
        outputs: { clip: bytes("audio/wav").optional(), title: maybe },
      },
      () => ({ clip: media("audio/wav", CLIP), title: "beep" }),
    )
    .action(
      {
        name: "raw_bytes",
        description: "Bytes that are not UTF-8.",
        outputs: { blob: bytes().optional(), note: maybe },
      },
      () => ({ blob: new Uint8Array([0xff, 0xfe, 0, 0x10, 0x3e, 0x3f]), note: "six bytes" }),
    );
}

function failures(registry: Registry): void {
  registry
    .action(
      {
        name: "fail_with",
        description: "Fail on purpose.",
        input: z.object({ code: text, message: maybe }),
        outputs: { never: maybe },
      },
      ({ code, message }) => {
        throw new StatusError(code in Code ? (code as CodeName) : "UNKNOWN", message ?? "");
      },
    )
    .action(
      {
        name: "partial_then_fail",
        description: "One value, then a failure.",
        input: z.object({ word: text }),
        outputs: { words: stream(text).optional() },
      },
      async ({ word }, context) => {
        await context.write("words", word);
        throw new StatusError("DATA_LOSS", "disk went away");
      },
    )
    .action(
      {
        name: "slow",
        description: "Wait, then answer.",
        input: z.object({ millis: z.int() }),
        outputs: { done: maybe },
      },
      async ({ millis }) => {
        await new Promise((resolve) => setTimeout(resolve, millis));
        return { done: "done" };
      },
    );
}

function numbers(registry: Registry): void {
  registry
    .action(
      {
        name: "big",
        description: "A result of a given size.",
        input: z.object({ bytes: z.int() }),
        outputs: { data: maybe },
      },
      ({ bytes }) => ({ data: "x".repeat(bytes) }),
    )
    .action(
      {
        name: "sum_numbers",
        description: "Add numbers.",
        input: z.object({ numbers: stream(z.number()) }),
        outputs: { total: z.number().optional() },
      },
      async (args) => {
        let total = 0;
        for await (const number of args.numbers) {
          total += number;
        }
        return { total };
      },
    );
}
