/** What a handler knows of its call, and what it may do beside returning a result. */

import type { Chunk } from "../wire/chunk.js";
import { flows, type Headers, type HeadersInit } from "../wire/headers.js";
import type { Failure } from "../wire/status.js";
import type { LogOptions } from "./log.js";
import type { Arguments, Call, Caller, CallOptions, StreamOptions } from "./options.js";

/** Reads the inputs of a call by hand. @internal */
export interface PortReader {
  read(port: string): Promise<unknown>;
  readChunk(port: string): Promise<Chunk | undefined>;
  readStream(port: string): AsyncGenerator<unknown, void, undefined>;
}

/** What a context is made of. @internal */
export interface ContextParts {
  readonly id: string;
  readonly action: string;
  readonly headers: Headers;
  readonly deadline: Date | undefined;
  readonly signal: AbortSignal;
  readonly caller: Caller;
  readonly log: (text: string, options: LogOptions) => void;
  readonly inputs: PortReader;
  readonly write: (port: string, value: unknown) => Promise<void>;
  readonly finish: (port: string) => Promise<void>;
  readonly fail: (port: string, failure: Failure) => void;
}

/** The context of one call that runs here. */
export class Context implements Caller {
  readonly #parts: ContextParts;

  /** @internal */
  constructor(parts: ContextParts) {
    this.#parts = parts;
  }

  /** The call's id: the model's own where a model made it. */
  get id(): string {
    return this.#parts.id;
  }

  /** The action's name. */
  get action(): string {
    return this.#parts.action;
  }

  /** The call's headers: `x-a11-*`, `x-otel-*` and those that the action declares. */
  get headers(): Headers {
    return this.#parts.headers;
  }

  /** When the call's time is up; `undefined` where it has no limit. */
  get deadline(): Date | undefined {
    return this.#parts.deadline;
  }

  /** Aborted when the call is cancelled, its time is up, or its caller is gone for good. */
  get signal(): AbortSignal {
    return this.#parts.signal;
  }

  /** Whether the call is over: nothing that the handler does now reaches anybody. */
  get cancelled(): boolean {
    return this.signal.aborted;
  }

  /** How many milliseconds are left; `undefined` where there is no limit. */
  timeLeft(): number | undefined {
    const { deadline } = this;
    return deadline === undefined ? undefined : Math.max(0, deadline.getTime() - Date.now());
  }

  /** Tells the user something; a model never reads it. */
  log(text: string, options: LogOptions = {}): void {
    this.#parts.log(text, options);
  }

  /** Notes something for the operator, which users are never shown. */
  logInternal(text: string, options: Omit<LogOptions, "internal"> = {}): void {
    this.#parts.log(text, { ...options, internal: true });
  }

  /**
   * The one value of an input, waiting for it; `undefined` where there is none. As
   * {@link readChunk} and {@link readStream} for actions that were registered with a schema:
   * the handlers of others have their arguments.
   *
   * @throws StatusError INVALID_ARGUMENT where a required input has none, or it cannot be read.
   */
  read(port: string): Promise<unknown> {
    return this.#parts.inputs.read(port);
  }

  /** The same as a chunk, whatever its media type. */
  readChunk(port: string): Promise<Chunk | undefined> {
    return this.#parts.inputs.readChunk(port);
  }

  /** The values of a stream input as they come; one reader, who may leave. */
  readStream(port: string): AsyncGenerator<unknown, void, undefined> {
    return this.#parts.inputs.readStream(port);
  }

  /** Writes an output by hand: the value of a unary one, the next of a stream. */
  write(port: string, value: unknown): Promise<void> {
    return this.#parts.write(port, value);
  }

  /** Ends a stream output that is written by hand. The handler's return ends all. */
  finish(port: string): Promise<void> {
    return this.#parts.finish(port);
  }

  /** Fails an output: whoever reads it gets why. */
  fail(port: string, failure: Failure): void {
    this.#parts.fail(port, failure);
  }

  /**
   * Calls another action, with this call's time left, its headers that flow on, and its
   * end: when this call is cancelled, so is that one.
   */
  call<T = unknown>(name: string, args?: Arguments, options?: CallOptions): Promise<T> {
    return this.#parts.caller.call(name, args, this.#nested(options));
  }

  /** As {@link call}; the values of the streamed output as they come. */
  stream<T = unknown>(
    name: string,
    args?: Arguments,
    options?: StreamOptions,
  ): AsyncIterableIterator<T> {
    return this.#parts.caller.stream(name, args, this.#nested(options));
  }

  /** As {@link call}; the call as it runs. */
  start(name: string, args?: Arguments, options?: CallOptions): Promise<Call> {
    return this.#parts.caller.start(name, args, this.#nested(options));
  }

  #nested<Options extends CallOptions>(options: Options | undefined): Options {
    const left = this.timeLeft();
    const asked = options?.timeout;
    const timeout = left === undefined ? asked : Math.min(left, asked ?? left);
    const headers: HeadersInit = {
      ...Object.fromEntries(this.headers.entries().filter(([name]) => flows(name))),
      ...options?.headers,
    };
    const signals = [this.signal, options?.signal].filter((signal) => signal !== undefined);
    return { ...options, timeout, headers, signal: AbortSignal.any(signals) } as Options;
  }
}
