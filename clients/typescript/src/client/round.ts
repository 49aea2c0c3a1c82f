/** A round of a model's calls: asked for, and asked for again where that is sound. */

import { createClient, type Transport } from "@connectrpc/connect";
import {
  ActionService,
  type ExecuteActionsFromInteractionRequest,
} from "../gen/a11/v1/action_service_pb.js";
import { durationOf } from "../session/core/core.js";
import { pauseFor } from "../session/pause.js";
import { onAbort } from "../wire/abort.js";
import { StatusError } from "../wire/status.js";
import type { ExecuteEvent, Result } from "./execute.js";
import { Events, resultOf, type SchemaOf } from "./results.js";
import { inOwnWords } from "./words.js";

/** How long the calls of a round may take where nothing is said. */
const DEFAULT_TIMEOUT_MS = 300_000;
/** How much longer than its calls a request may take. */
const ANSWER_MS = 10_000;
/** How long to wait before asking again: doubled from the least to the most. */
const LEAST_PAUSE_MS = 50;
const MOST_PAUSE_MS = 2000;
const MAX_TIMER_MS = 2 ** 31 - 1;

/** What is said where there was no connection to send anything on. */
const WAS_NOT_SENT = /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH/;

/** What a round is asked for with. */
export interface RoundParts {
  readonly transport: Transport;
  readonly request: ExecuteActionsFromInteractionRequest;
  readonly timeout: number | undefined;
  readonly signal: AbortSignal | undefined;
  /** The metadata, as it is when it is sent. */
  readonly headers: () => Record<string, string>;
  readonly schemaOf: SchemaOf;
}

/** Asks for the result. */
export async function askForResult(parts: RoundParts): Promise<Result> {
  const client = createClient(ActionService, parts.transport);
  const attempts = new Attempts(parts);
  try {
    for (;;) {
      try {
        const response = await client.executeActionsFromInteraction(...attempts.next());
        return await resultOf(response, parts.schemaOf);
      } catch (error) {
        await attempts.failed(error);
      }
    }
  } finally {
    attempts.close();
  }
}

/** Asks for what happens, and the result. */
export async function* askForEvents(
  parts: RoundParts,
): AsyncGenerator<ExecuteEvent, void, undefined> {
  const client = createClient(ActionService, parts.transport);
  const attempts = new Attempts(parts);
  const events = new Events(parts.schemaOf);
  try {
    for (;;) {
      try {
        const [request, options] = attempts.next();
        let isWhole = false;
        for await (const message of client.streamActionsFromInteraction({ request }, options)) {
          isWhole ||= message.event.case === "summary";
          yield* await events.of(message);
        }
        if (isWhole) {
          return;
        }
        throw new StatusError("UNAVAILABLE", "the stream broke off");
      } catch (error) {
        await attempts.failed(error);
        events.again();
      }
    }
  } finally {
    attempts.close();
  }
}

/** The attempts at one round. */
class Attempts {
  readonly #parts: RoundParts;
  readonly #end: number;
  readonly #abort = new AbortController();
  /** Lets go of the caller's signal. */
  readonly close: () => void;
  #pause = LEAST_PAUSE_MS;
  #isFirst = true;

  constructor(parts: RoundParts) {
    this.#parts = parts;
    this.#end = performance.now() + (parts.timeout ?? DEFAULT_TIMEOUT_MS);
    this.close = onAbort(parts.signal, () => this.#abort.abort());
    if (parts.signal?.aborted) {
      this.#abort.abort();
    }
  }

  /** The next request, with the time that is left. */
  next() {
    const { request, timeout, headers } = this.#parts;
    const left = Math.max(1, this.#end - performance.now());
    if (!this.#isFirst) {
      request.callTimeout = durationOf(left);
    }
    this.#isFirst = false;
    const limited = timeout !== undefined && left + ANSWER_MS <= MAX_TIMER_MS;
    const options = {
      headers: headers(),
      signal: this.#abort.signal,
      ...(limited ? { timeoutMs: Math.ceil(left) + ANSWER_MS } : {}),
    };
    return [request, options] as const;
  }

  /**
   * Waits before another attempt.
   *
   * @throws StatusError where none is made.
   */
  async failed(error: unknown): Promise<void> {
    const { request, signal } = this.#parts;
    if (signal?.aborted) {
      throw StatusError.from(signal.reason, "abort");
    }
    const failure = StatusError.from(error);
    // A reason means that the service was there and said so.
    if (failure.code !== "UNAVAILABLE" || failure.reason !== "UNSPECIFIED") {
      throw inOwnWords(failure);
    }
    if (!request.store) {
      throw WAS_NOT_SENT.test(failure.message) ? failure : unknown(failure);
    }
    if (performance.now() + this.#pause >= this.#end) {
      throw failure;
    }
    await pauseFor(this.#pause, signal);
    this.#pause = Math.min(this.#pause * 2, MOST_PAUSE_MS);
    if (signal?.aborted) {
      throw StatusError.from(signal.reason, "abort");
    }
  }
}

/** What a round that is not recorded ends with where its connection breaks. */
function unknown(failure: StatusError): StatusError {
  const message =
    `${failure.message}: what became of the calls is not known; ` +
    "with store, conversation and an id of the turn the round is recorded, and sent again by itself";
  return new StatusError("UNAVAILABLE", message, { cause: failure });
}
