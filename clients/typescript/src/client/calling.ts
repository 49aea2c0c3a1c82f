/** How a client makes its calls: what goes into one, and which way it goes. */

import type { Transport } from "@connectrpc/connect";
import type { Arguments, CallOptions, StreamOptions } from "../action/options.js";
import type { NewCall } from "../session/core/core.js";
import type { Keeper } from "../session/keeper.js";
import type { Session } from "../session/session.js";
import { DEADLINE, wireHeaders } from "../wire/headers.js";
import { invalid, ok } from "../wire/status.js";
import { type Argument, argumentsOf, isLive, type Others } from "./arguments.js";
import { runOneShot } from "./one-shot.js";
import { checkOptions, STREAM_OPTIONS } from "./options.js";
import { RunningCall } from "./running-call.js";
import type { Schemas } from "./schemas.js";
import { Patience } from "./timeout.js";

/** What calls are made with. */
export interface CallsParts {
  readonly transport: Transport;
  readonly keeper: Keeper;
  readonly schemas: Schemas;
  /** `always`: every call is one of the session. `needed`: only where it must be. */
  readonly sessionCalls: "always" | "needed";
  /** Throws where no further call may be made. */
  readonly check: () => void;
}

export class Calls {
  readonly #parts: CallsParts;

  constructor(parts: CallsParts) {
    this.#parts = parts;
  }

  /** Starts a call; `others` says what becomes of the inputs that are not given. */
  async start(
    name: string,
    args: Arguments,
    options: CallOptions,
    others: Others,
  ): Promise<RunningCall> {
    // A stream's port was chosen before.
    checkOptions(options, STREAM_OPTIONS, "a call");
    if (typeof name !== "string") {
      throw invalid(`an action's name is a text, not ${name === null ? "null" : typeof name}`);
    }
    const { transport, keeper, schemas, check } = this.#parts;
    check();
    const patience = new Patience(options);
    const headers = wireHeaders(options.headers);
    const { schema, given } = await patience.wait(this.#fit(name, args, others));
    const session = this.#isOneShot(given, others)
      ? undefined
      : await patience.wait(keeper.session());
    const timed = { ...options, timeout: patience.left };
    const written = others === "open" ? schema.inputs : given;
    const inputs = written.map(({ name }) => name);
    const call = new RunningCall({
      id: `call_${crypto.randomUUID().replaceAll("-", "")}`,
      schema,
      inputs,
      options: timed,
      onEnd: (how) => schemas.judge(name, how),
    });
    if (session === undefined) {
      void runOneShot(transport, name, call, given, headers, timed);
    } else {
      const { [DEADLINE]: _, ...sent } = headers;
      // The time left says it, without a common clock: the deadline is no header.
      const { timeout: timeoutMs } = timed;
      const frame = { id: call.id, action: name, inputs, headers: sent, timeoutMs };
      begin(session, frame, call, given);
    }
    return call;
  }

  /** The values of the one streamed output of a call, or of the output that is chosen. */
  async *stream<T>(
    name: string,
    args: Arguments,
    options: StreamOptions,
  ): AsyncGenerator<T, void, undefined> {
    checkOptions(options, STREAM_OPTIONS, "a call");
    const patience = new Patience(options);
    const port = await patience.wait(this.#streamOf(name, options.port));
    const call = await this.start(name, args, { ...options, timeout: patience.left }, "absent");
    for await (const event of call) {
      if (event.type === "output" && event.port === port) {
        yield event.value as T;
      } else if (event.type === "finished" && event.error !== undefined) {
        throw event.error;
      }
    }
  }

  /** The schema of an action, and the arguments that go with it, as the service has it now. */
  async #fit(name: string, args: Arguments, others: Others) {
    const { schemas } = this.#parts;
    const isKept = schemas.has(name);
    const schema = await schemas.get(name);
    try {
      return { schema, given: argumentsOf(schema, args, others) };
    } catch (error) {
      if (!isKept) {
        throw error;
      }
    }
    // It may have changed since it was kept.
    schemas.forget(name);
    const now = await schemas.get(name);
    return { schema: now, given: argumentsOf(now, args, others) };
  }

  #isOneShot(given: readonly Argument[], others: Others): boolean {
    const needed = others === "open" || given.some(isLive);
    const { sessionCalls, keeper } = this.#parts;
    return sessionCalls === "needed" && !needed && keeper.current === undefined;
  }

  async #streamOf(name: string, port: string | undefined): Promise<string> {
    const { outputs } = await this.#parts.schemas.get(name);
    if (port !== undefined) {
      if (!outputs.some((output) => output.name === port)) {
        throw invalid(`action "${name}" has no output "${port}"`);
      }
      return port;
    }
    const streams = outputs.filter(({ unary }) => !unary).map((output) => output.name);
    const [first, ...others] = streams;
    if (first === undefined) {
      throw invalid(`action "${name}" has no streamed output: choose one with \`port\``);
    }
    if (others.length > 0) {
      throw invalid(`action "${name}" streams ${streams.join(", ")}: choose with \`port\``);
    }
    return first;
  }
}

/** Begins a call in a session. */
function begin(
  session: Session,
  frame: NewCall,
  call: RunningCall,
  given: readonly Argument[],
): void {
  const number = session.startCall(frame, call);
  call.begin({
    write: (fragment) => session.write(number, fragment),
    close: (id) => session.close(number, id, ok()),
    consume: (id, cost) => session.consume(number, id, cost),
    cancel: (why) => session.cancel(number, why),
  });
  void call.feed(given);
}
