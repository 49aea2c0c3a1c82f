/** Inputs that a handler reads by hand: the ports of an action that was registered with a schema. */

import type { Chunk } from "../wire/chunk.js";
import { invalid, StatusError } from "../wire/status.js";
import type { PortReader } from "./context.js";
import { type Inputs, missing } from "./inputs.js";
import type { TypedPort } from "./ports.js";
import type { Entry } from "./registry.js";

export class Reading implements PortReader {
  readonly #entry: Entry;
  readonly #inputs: Inputs;

  constructor(entry: Entry, inputs: Inputs) {
    this.#entry = entry;
    this.#inputs = inputs;
  }

  async read(name: string): Promise<unknown> {
    const port = this.#port(name, "one value");
    const chunk = await this.#inputs.value(name);
    if (chunk === undefined && port.port.required) {
      throw missing(port);
    }
    return said(name, chunk);
  }

  async readChunk(name: string): Promise<Chunk | undefined> {
    this.#port(name, "one value");
    return this.#inputs.value(name);
  }

  async *readStream(name: string): AsyncGenerator<unknown, void, undefined> {
    this.#port(name, "a stream");
    for await (const chunk of this.#inputs.stream(name)) {
      yield said(name, chunk as Chunk);
    }
  }

  #port(name: string, wanted: "one value" | "a stream"): TypedPort {
    const port = this.#entry.inputs.get(name);
    if (this.#entry.input !== "by hand") {
      throw broken(`input "${name}" is an argument of the handler, and was read`);
    }
    if (port === undefined) {
      throw broken(`the action has no input "${name}"`);
    }
    const is = port.port.unary ? "one value" : "a stream";
    if (is !== wanted) {
      throw broken(`input "${name}" is ${is}: use ${is === "a stream" ? "readStream" : "read"}`);
    }
    return port;
  }
}

function said(name: string, chunk: Chunk | undefined): unknown {
  try {
    return chunk?.value;
  } catch (error) {
    throw invalid(`input "${name}": ${(error as Error).message}`, "INVALID_INPUT");
  }
}

/** The handler is wrong, whoever called it. */
function broken(message: string): StatusError {
  return new StatusError("INTERNAL", message, { reason: "HANDLER_FAILED" });
}
