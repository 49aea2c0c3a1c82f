/** How a call is made, and what comes of it: the words that clients and contexts share. */

/// <reference lib="esnext.disposable" preserve="true" />

import type { ActionSchema } from "../gen/a11/v1/action_pb.js";
import type { HeadersInit } from "../wire/headers.js";
import type { CallStatus, StatusError } from "../wire/status.js";

/** Arguments by input name. A stream input takes a list or an (async) iterable. */
export type Arguments = Readonly<Record<string, unknown>>;

/** One piece of narration. A model never reads it. */
export interface LogEntry {
  readonly level: LogLevel;
  /** Which part of the action speaks; empty: the action itself. */
  readonly channel: string;
  readonly text: string;
  /** For the operator: not to be shown to users. */
  readonly internal: boolean;
}

/** How much an entry matters. */
export type LogLevel = "debug" | "info" | "warn" | "error";

/** How a call is made. */
export interface CallOptions {
  /** Ends the call after this many milliseconds. Default: no limit. */
  readonly timeout?: number | undefined;
  /** Headers to send along. */
  readonly headers?: HeadersInit | undefined;
  /** Hears what the action narrates for the user, as it happens. */
  readonly onLog?: ((entry: LogEntry) => void) | undefined;
  /** Cancels the call. */
  readonly signal?: AbortSignal | undefined;
}

/** How the output is chosen whose values are wanted. */
export interface StreamOptions extends CallOptions {
  /** The output's name, whether it is a stream or not. Default: the one that is. */
  readonly port?: string | undefined;
}

/** Something that happened in a call. */
export type CallEvent =
  /** A value of an output: the one of a unary port, the next of a stream. */
  | { readonly type: "output"; readonly port: string; readonly value: unknown }
  /** Narration, that for the operator too. */
  | ({ readonly type: "log" } & LogEntry)
  /** How it ended: the last event, and always there. */
  | { readonly type: "finished"; readonly status: CallStatus; readonly error?: StatusError };

/** A call under way: its events, and its inputs that were not given. */
export interface Call extends AsyncIterable<CallEvent>, AsyncDisposable {
  /** The call's id, as its handler sees it. */
  readonly id: string;
  /** The action's schema, as it was when the call began. */
  readonly schema: ActionSchema;
  /** How it ended; `undefined` until then. */
  readonly status: CallStatus | undefined;
  /** Writes the value of a unary input, or the next one of a stream input. */
  write(port: string, value: unknown): Promise<void>;
  /** Ends an input. */
  close(port: string): Promise<void>;
  /** Asks for its end. It ends CANCELLED here at once. */
  cancel(reason?: string): void;
  /**
   * Ends the inputs that nothing was written to, and waits for the result; those that were
   * begun are ended by {@link close}. The result is the one output's value, or
   * an object of the outputs; a stream output as a list of what was not iterated over.
   *
   * @throws StatusError what the call failed with.
   */
  result(): Promise<unknown>;
  /** Cancels it, where it has not ended: what `await using` does at the end of its block. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** What makes calls: a client, or the context of a call that nests others. */
export interface Caller {
  /** @typeParam T - What the result is taken for; it is not checked. */
  call<T = unknown>(name: string, args?: Arguments, options?: CallOptions): Promise<T>;
  /** @typeParam T - What the values are taken for; it is not checked. */
  stream<T = unknown>(
    name: string,
    args?: Arguments,
    options?: StreamOptions,
  ): AsyncIterableIterator<T>;
  start(name: string, args?: Arguments, options?: CallOptions): Promise<Call>;
}
