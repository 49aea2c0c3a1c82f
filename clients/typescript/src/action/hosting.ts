/** A call that the other side makes: its handler, what it puts out, and how it ends. */

import type { LogEntry as WireLogEntry } from "../gen/a11/v1/action_pb.js";
import type { NodeFragment } from "../gen/a11/v1/chunk_pb.js";
import type { CallFrame } from "../gen/a11/v1/peer_service_pb.js";
import type { CallSink, Session } from "../session/session.js";
import { Headers, type WireHeaders } from "../wire/headers.js";
import {
  type Failure,
  ok,
  Reason,
  type Status,
  StatusError,
  status,
  textOf,
} from "../wire/status.js";
import { Context } from "./context.js";
import { bind, describe, Inputs } from "./inputs.js";
import { wireLog } from "./log.js";
import type { Caller } from "./options.js";
import { Outbox } from "./outbox.js";
import type { TypedPort } from "./ports.js";
import { Reading } from "./reading.js";
import { type Entry, OUTPUT } from "./registry.js";

const MAX_TIMER_MS = 2 ** 31 - 1;

interface Output {
  readonly outbox: Outbox;
  /** Its node. */
  readonly id: string;
  readonly type: TypedPort["type"];
  hasFailed: boolean;
}

/** Runs one call. Its status is told exactly once, last, whatever the handler does. */
export class HostedCall implements CallSink {
  readonly #session: Session;
  readonly #call: number;
  readonly #entry: Entry;
  readonly #abort = new AbortController();
  readonly #outputs = new Map<string, Output>();
  /** What handlers yield from. */
  readonly #sources = new Set<AsyncIterator<unknown>>();
  #inputs: Inputs | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #deadline: Date | undefined;
  #isOver = false;

  constructor(session: Session, frame: CallFrame, entry: Entry, caller: Caller) {
    this.#session = session;
    this.#call = Number(frame.call);
    this.#entry = entry;
    this.#keepTime(frame);
    void this.#run(frame, caller).then(
      () => this.#finish(ok()),
      (error) => this.#finish(failureOf(error)),
    );
  }

  fragments(fragments: NodeFragment[]): void {
    for (const fragment of fragments) {
      this.#inputs?.push(fragment);
    }
    this.#endIfFailed();
  }

  closed(id: string, how: Status): void {
    this.#inputs?.close(id, how);
    this.#endIfFailed();
  }

  log(_entry: WireLogEntry, _displaced: number): void {}

  /** It is cancelled, or the session is over. */
  ended(why: Status): void {
    this.#finish(why);
  }

  async #run(frame: CallFrame, caller: Caller): Promise<void> {
    const session = this.#session;
    const call = this.#call;
    const inputs = new Inputs(this.#entry, frame, (id, cost) => session.consume(call, id, cost));
    this.#inputs = inputs;
    const outputs = bind(this.#entry.outputs, frame.outputs, "own name", "INVALID_REQUEST");
    for (const [id, { port, type }] of outputs) {
      const outbox = new Outbox("output", port, id, (fragment) => session.write(call, fragment));
      this.#outputs.set(port.name, { outbox, id, type, hasFailed: false });
    }
    const isByHand = this.#entry.input === "by hand";
    const args = isByHand ? {} : await inputs.arguments();
    const context = new Context({
      id: frame.id === "" ? `call_${call}` : frame.id,
      action: frame.action,
      headers: this.#headersOf(frame),
      deadline: this.#deadline,
      signal: this.#abort.signal,
      caller,
      inputs: new Reading(this.#entry, inputs),
      log: (text, options) => session.log(call, wireLog(text, options)),
      write: (port, value) => this.#write(port, value),
      finish: async (port) => this.#output(port).outbox.finish(),
      fail: (port, failure) => this.#fail(port, failure),
    });
    const returned = await this.#entry.handler(args as never, context);
    await this.#writeReturned(returned);
    for (const { outbox, hasFailed } of this.#outputs.values()) {
      if (!outbox.isWritten && !hasFailed && outbox.port.unary && this.#isRequired(outbox)) {
        const message = `the handler wrote no output "${outbox.port.name}"`;
        throw new StatusError("INTERNAL", message, { reason: "INVALID_OUTPUT" });
      }
      await outbox.finish();
    }
  }

  #isRequired(outbox: Outbox): boolean {
    return this.#entry.outputs.get(outbox.port.name)?.port.required ?? false;
  }

  /** Writes what the handler returned: the output, or an object of the outputs. */
  async #writeReturned(returned: unknown): Promise<void> {
    if (returned === undefined) {
      return;
    }
    const { returnsOutput } = this.#entry;
    if (returnsOutput && this.#outputs.size === 0) {
      throw new StatusError(
        "INTERNAL",
        "the handler returned a value, and the action has no output: declare it, output: z.string()",
        { reason: "INVALID_OUTPUT" },
      );
    }
    if (!returnsOutput && !isFields(returned)) {
      const names = [...this.#outputs.keys()].join(", ");
      const message = `the handler returns an object of the outputs: { ${names} }`;
      throw new StatusError("INTERNAL", message, { reason: "INVALID_OUTPUT" });
    }
    const values = returnsOutput ? { [OUTPUT]: returned } : (returned as Record<string, unknown>);
    await Promise.all(
      Object.entries(values).map(async ([port, value]) => {
        if (value === undefined || this.#isOver) {
          return;
        }
        if (this.#output(port).outbox.port.unary) {
          if (isStream(value)) {
            throw new StatusError(
              "INTERNAL",
              `output "${port}" is one value, and the handler returned a stream: declare it with stream(…)`,
              { reason: "INVALID_OUTPUT" },
            );
          }
          await this.#write(port, value);
        } else {
          await this.#writeStream(port, value as AsyncIterable<unknown>);
        }
      }),
    );
  }

  /** Writes what a handler yields, for as long as the call is not over. */
  async #writeStream(port: string, values: AsyncIterable<unknown>): Promise<void> {
    const source = values[Symbol.asyncIterator]?.() ?? iteratorOf(port, values);
    this.#sources.add(source);
    for (let next = await source.next(); next.done !== true; next = await source.next()) {
      if (this.#isOver) {
        return;
      }
      await this.#write(port, next.value);
    }
    this.#sources.delete(source);
  }

  async #write(port: string, value: unknown): Promise<void> {
    const { outbox, type } = this.#output(port);
    const parsed = await type.safeParseAsync(value);
    if (!parsed.success) {
      const message = describe(`output "${port}"`, parsed.error);
      throw new StatusError("INTERNAL", message, { reason: "INVALID_OUTPUT" });
    }
    try {
      await outbox.write(parsed.data);
    } catch (error) {
      // What is wrong with an output is the handler's fault, not its caller's.
      const { message } = StatusError.from(error);
      throw new StatusError("INTERNAL", message, { reason: "INVALID_OUTPUT" });
    }
  }

  #fail(port: string, failure: Failure): void {
    const output = this.#output(port);
    const why = failureOf(StatusError.ofFailure(`output "${port}"`, failure));
    if (output.outbox.end("it was failed")) {
      output.hasFailed = true;
      this.#session.close(this.#call, output.id, why);
    }
  }

  #output(port: string): Output {
    const output = this.#outputs.get(port);
    if (output === undefined) {
      throw new StatusError("INTERNAL", `the action has no output "${port}"`, {
        reason: "INVALID_OUTPUT",
      });
    }
    return output;
  }

  /** What was sent, and the defaults of what was not. */
  #headersOf(frame: CallFrame): Headers {
    const defaults = this.#entry.schema.headers.flatMap(({ name, defaultValue }) =>
      defaultValue === undefined ? [] : [[name.toLowerCase(), defaultValue] as const],
    );
    return new Headers({ ...Object.fromEntries(defaults), ...frame.headers } as WireHeaders);
  }

  #keepTime({ timeout }: CallFrame): void {
    if (timeout === undefined) {
      return;
    }
    const left = Math.max(0, Number(timeout.seconds) * 1000 + timeout.nanos / 1e6);
    this.#deadline = new Date(Math.min(Date.now() + left, 8.64e15));
    if (left <= MAX_TIMER_MS) {
      this.#timer = setTimeout(() => {
        this.#finish(status("DEADLINE_EXCEEDED", "the call's time was up", "DEADLINE"));
      }, left);
    }
  }

  /** Ends the call where its inputs break it, whatever the handler does with them. */
  #endIfFailed(): void {
    const failure = this.#inputs?.failure;
    if (failure !== undefined) {
      this.#finish(failure.toStatus());
    }
  }

  #finish(how: Status): void {
    if (this.#isOver) {
      return;
    }
    this.#isOver = true;
    clearTimeout(this.#timer);
    const failure = how.code === 0 ? undefined : StatusError.of(how);
    if (failure !== undefined) {
      this.#abort.abort(failure);
      this.#inputs?.fail(failure);
      for (const source of this.#sources) {
        // A generator that waits hears of it later; nobody waits for that.
        Promise.resolve(source.return?.()).catch(() => {});
      }
    }
    this.#session.finish(this.#call, how);
  }
}

function isFields(value: unknown): boolean {
  return typeof value === "object" && value !== null && !(Symbol.iterator in value);
}

/** Whether a value is a generator, or values that are still to come. */
function isStream(value: unknown): boolean {
  return (
    typeof value === "object" &&
    value !== null &&
    (Symbol.asyncIterator in value ||
      Object.prototype.toString.call(value) === "[object Generator]")
  );
}

/** The values of a plain iterable, one by one. */
function iteratorOf(port: string, values: unknown): AsyncIterator<unknown> {
  if (typeof values !== "object" || values === null || !(Symbol.iterator in values)) {
    const message = `output "${port}" is a stream, and was given ${typeof values}`;
    throw new StatusError("INTERNAL", message, { reason: "INVALID_OUTPUT" });
  }
  const iterator = (values as Iterable<unknown>)[Symbol.iterator]();
  return {
    next: async () => iterator.next(),
    return: async () => iterator.return?.() ?? { done: true, value: undefined },
  };
}

/** What a handler that threw ends its call with. */
function failureOf(error: unknown): Status {
  if (error instanceof StatusError) {
    const told = error.toStatus();
    return error.reason === "UNSPECIFIED" ? { ...told, reason: Reason.HANDLER_FAILED } : told;
  }
  const what = error instanceof Error ? `${error.name}: ${textOf(error)}` : textOf(error);
  return status("INTERNAL", `handler failed: ${what}`, "HANDLER_FAILED");
}
