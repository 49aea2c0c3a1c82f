/** A call that this program made, as it runs: what came of it and was not taken yet. */

import { Decoder } from "../action/decoder.js";
import { readLog } from "../action/log.js";
import type { Call, CallEvent, CallOptions, LogEntry } from "../action/options.js";
import { Outbox } from "../action/outbox.js";
import type {
  ActionSchema,
  PortSchema,
  LogEntry as WireLogEntry,
} from "../gen/a11/v1/action_pb.js";
import type { NodeFragment } from "../gen/a11/v1/chunk_pb.js";
import { cost } from "../session/core/cost.js";
import { Queue } from "../session/core/queue.js";
import type { CallSink } from "../session/session.js";
import { onAbort } from "../wire/abort.js";
import {
  type CallStatus,
  callStatus,
  invalid,
  isOk,
  type Status,
  StatusError,
  status,
} from "../wire/status.js";
import type { Argument } from "./arguments.js";

/** How many log entries are held for whoever takes them; older ones go. */
const MAX_HELD_LOGS = 1024;
const MAX_TIMER_MS = 2 ** 31 - 1;

/** What a call is made of. */
export interface RunningCallParts {
  readonly id: string;
  readonly schema: ActionSchema;
  /** The inputs that are written: no other is. */
  readonly inputs: readonly string[];
  readonly options: CallOptions;
  /** Hears how it ended, once. */
  readonly onEnd: (how: Status) => void;
}

/** Where a call runs. */
export interface Origin {
  /** Sends a piece of an input once there is room; `false` where nothing more is taken. */
  write(fragment: NodeFragment): Promise<boolean>;
  /** Ends an input that nothing was written to. */
  close(id: string): void;
  /** The caller took what cost this much of an output. */
  consume(id: string, cost: number): void;
  /** Asks for the call's end; nothing more is heard of it. */
  cancel(why: Status): void;
}

interface Item {
  readonly event: CallEvent | undefined;
  /** The node to give credit back to, and how much. */
  readonly id?: string;
  readonly cost?: number;
}

interface Output {
  readonly port: PortSchema;
  readonly decoder: Decoder;
  /** The values that nobody iterated over. */
  readonly values: unknown[];
}

export class RunningCall implements Call, CallSink {
  readonly id: string;
  readonly schema: ActionSchema;
  readonly #options: CallOptions;
  readonly #onEnd: (how: Status) => void;
  readonly #inputs = new Map<string, Outbox>();
  readonly #outputs = new Map<string, Output>();
  /** The inputs that were given as arguments, and end by themselves. */
  readonly #fed = new Set<string>();
  readonly #items = new Queue<Item>();
  #heldLogs = 0;
  #origin: Origin | undefined;
  #end: Status | undefined;
  /** Who waits for an event: one, as a rule. */
  #waiting: (() => void)[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #forget: () => void = () => {};

  constructor({ id, schema, inputs, options, onEnd }: RunningCallParts) {
    this.id = id;
    this.schema = schema;
    this.#options = options;
    this.#onEnd = onEnd;
    for (const port of schema.inputs) {
      if (inputs.includes(port.name)) {
        const send = (piece: NodeFragment) => this.#send(piece);
        this.#inputs.set(port.name, new Outbox("input", port, port.name, send));
      }
    }
    for (const port of schema.outputs) {
      this.#outputs.set(port.name, { port, decoder: new Decoder(port), values: [] });
    }
  }

  get status(): CallStatus | undefined {
    return this.#end && callStatus(this.#end);
  }

  /** Says where it runs. From now on its time counts. */
  begin(origin: Origin): void {
    this.#origin = origin;
    const { timeout, signal } = this.#options;
    if (timeout !== undefined && timeout <= MAX_TIMER_MS) {
      this.#timer = setTimeout(
        () => {
          this.#stop(status("DEADLINE_EXCEEDED", "the call's time was up", "DEADLINE"));
        },
        Math.max(0, timeout),
      );
    }
    if (signal?.aborted) {
      this.cancel();
    } else {
      this.#forget = onAbort(signal, () => this.cancel());
    }
  }

  // What its origin says.

  fragments(fragments: NodeFragment[]): void {
    for (const fragment of fragments) {
      const output = this.#outputs.get(fragment.id);
      const price = { id: fragment.id, cost: cost(fragment) };
      if (output === undefined) {
        const message = `the action has no port for node "${fragment.id.slice(0, 255)}"`;
        this.#stop(status("INTERNAL", message, "INVALID_OUTPUT"));
        return;
      }
      try {
        const values = output.decoder.push(fragment);
        const port = output.port.name;
        const event = { type: "output", port, value: values[0] } as const;
        this.#push({ event: values.length === 0 ? undefined : event, ...price });
      } catch (error) {
        this.#stop(StatusError.from(error).toStatus());
        return;
      }
    }
  }

  closed(_id: string, _how: Status): void {
    // How the call ended says more.
  }

  log(entry: WireLogEntry, displaced: number): void {
    if (displaced > 0) {
      const text = `[${displaced} earlier log entries were dropped]\n`;
      this.#narrate({ text, level: "warn", channel: "", internal: false });
    }
    this.#narrate(readLog(entry));
  }

  ended(how: Status): void {
    if (this.#end !== undefined) {
      return;
    }
    this.#end = how;
    clearTimeout(this.#timer);
    this.#forget();
    this.#onEnd(how);
    for (const input of this.#inputs.values()) {
      input.abandon();
    }
    const finished = { type: "finished", status: callStatus(how) } as const;
    this.#push({ event: isOk(how) ? finished : { ...finished, error: StatusError.of(how) } });
  }

  // What its program says.

  async write(port: string, value: unknown): Promise<void> {
    const input = this.#input(port);
    if (this.#fed.has(port)) {
      const message = `input "${port}" has ended: it was given when the call was started`;
      throw new StatusError("FAILED_PRECONDITION", message, { reason: "NODE_CLOSED" });
    }
    await input.write(value);
  }

  async close(port: string): Promise<void> {
    await this.#input(port).finish();
  }

  cancel(reason = "the caller cancelled the call"): void {
    this.#stop(status("CANCELLED", reason, "CANCELLED"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cancel();
  }

  /**
   * Writes arguments, each to its end, as there is room for them. What goes wrong, in a
   * program's own iterator too, fails the call.
   */
  feed(args: readonly Argument[]): Promise<void> {
    const written = args.map(async ({ name, value }) => {
      const input = this.#input(name);
      this.#fed.add(name);
      await (input.port.unary ? input.write(value) : input.writeAll(value as Iterable<unknown>));
    });
    return Promise.all(written).then(
      () => {},
      (error) => this.#stop(StatusError.from(error).toStatus()),
    );
  }

  /**
   * Ends the inputs that nothing was written to; those that were begun are their writer's. Not
   * by a final fragment: another program may have written an input of the run to its end.
   */
  #closeUntouched(): void {
    for (const [port, input] of this.#inputs) {
      const isUntouched = !this.#fed.has(port) && !input.isWritten;
      if (
        isUntouched &&
        input.end("nothing had been written to it when the result was asked for")
      ) {
        this.#origin?.close(port);
      }
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<CallEvent, void, undefined> {
    try {
      for (;;) {
        const event = await this.nextEvent();
        if (event === undefined) {
          return;
        }
        yield event;
      }
    } finally {
      if (this.#end === undefined) {
        this.cancel();
      }
    }
  }

  /** The next event; `undefined` after the last. */
  async nextEvent(): Promise<CallEvent | undefined> {
    for (;;) {
      const item = this.#items.shift();
      if (item === undefined) {
        if (this.#end !== undefined) {
          return undefined;
        }
        await new Promise<void>((resolve) => {
          this.#waiting.push(resolve);
        });
        continue;
      }
      if (item.id !== undefined) {
        this.#origin?.consume(item.id, item.cost ?? 0);
      }
      if (item.event?.type === "log") {
        this.#heldLogs--;
      }
      if (item.event?.type === "output") {
        const output = this.#outputs.get(item.event.port);
        if (output?.port.unary) {
          output.values[0] = item.event.value;
        }
      }
      if (item.event !== undefined) {
        return item.event;
      }
    }
  }

  async result(): Promise<unknown> {
    this.#closeUntouched();
    for (let event = await this.nextEvent(); event !== undefined; event = await this.nextEvent()) {
      if (event.type === "output") {
        const output = this.#outputs.get(event.port);
        if (output !== undefined && !output.port.unary) {
          output.values.push(event.value);
        }
      }
    }
    if (this.#end !== undefined && !isOk(this.#end)) {
      throw StatusError.of(this.#end);
    }
    const results = [...this.#outputs.values()].map(
      ({ port, values }) => [port.name, port.unary ? values[0] : values] as const,
    );
    return results.length > 1 ? Object.fromEntries(results) : results[0]?.[1];
  }

  #input(port: string): Outbox {
    const input = this.#inputs.get(port);
    if (input === undefined) {
      throw invalid(`action "${this.schema.name}" has no input "${port}"`, "UNDECLARED_INPUT");
    }
    return input;
  }

  async #send(piece: NodeFragment): Promise<boolean> {
    return (
      this.#end === undefined && this.#origin !== undefined && (await this.#origin.write(piece))
    );
  }

  #narrate(entry: LogEntry): void {
    // The program's own fault ends its call, and nobody else's.
    const fault = (error: unknown) => this.#stop(StatusError.from(error).toStatus());
    try {
      // Some are async, whatever is asked for.
      const told: unknown = entry.internal ? undefined : this.#options.onLog?.(entry);
      if (told instanceof Promise) {
        told.catch(fault);
      }
    } catch (error) {
      fault(error);
      return;
    }
    if (this.#heldLogs < MAX_HELD_LOGS) {
      this.#heldLogs++;
      this.#push({ event: { type: "log", ...entry } });
    }
  }

  #stop(why: Status): void {
    if (this.#end === undefined) {
      this.#origin?.cancel(why);
      this.ended(why);
    }
  }

  #push(item: Item): void {
    this.#items.push(item);
    for (const resume of this.#waiting.splice(0)) {
      resume();
    }
  }
}
