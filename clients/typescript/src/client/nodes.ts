/** Reading and writing single nodes, apart from calls. */

/// <reference lib="esnext.disposable" preserve="true" />

import { createClient, type Transport } from "@connectrpc/connect";
import { Decoder } from "../action/decoder.js";
import type { NodeFragment } from "../gen/a11/v1/chunk_pb.js";
import { NodeService } from "../gen/a11/v1/node_service_pb.js";
import { pauseFor } from "../session/pause.js";
import { Chunk, chunkOf, endOf, fragmentOf, JSON_TYPE, kindOf, nameOf } from "../wire/chunk.js";
import { type Failure, invalid, isOk, ok, type Status, StatusError } from "../wire/status.js";

/** Which node. */
export interface NodeOptions {
  /** The session that the node belongs to. Default: the client's own. */
  readonly session?: string | undefined;
  /**
   * Instead of `session`: the run that the node belongs to, one of its ports. The caller
   * chose it, and sent it as the call's header `x-a11-run`.
   */
  readonly run?: string | undefined;
  /** The fragment to begin at. Default 0. */
  readonly offset?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Which node, and what is written to it. */
export interface WriteNodeOptions extends Omit<NodeOptions, "offset"> {
  /** What values are written as. Default `application/json`. */
  readonly mediaType?: string | undefined;
}

/** Whose node it is. */
export interface NodeOwner {
  readonly session: string;
  readonly run: string;
}

/** How often a lost connection is tried again, and after how long at first. */
const ATTEMPTS = 8;
const LEAST_PAUSE_MS = 50;
/** How much is written before the service is asked what has arrived. */
const BATCH_FRAGMENTS = 256;

/** The values of a node from a place on, over as many connections as it takes. */
export async function* readNode(
  transport: Transport,
  owner: NodeOwner,
  id: string,
  options: NodeOptions,
): AsyncGenerator<unknown, void, undefined> {
  const client = createClient(NodeService, transport);
  const decoder = new Decoder({ name: id, mediaType: "", unary: false });
  const rpc = options.signal === undefined ? {} : { signal: options.signal };
  let offset = options.offset ?? 0;
  for (let attempt = 0; ; attempt++) {
    try {
      for await (const { event } of client.readNode({ ...owner, id, offset }, rpc)) {
        if (event.case === "fragments") {
          for (const fragment of event.value.fragments) {
            attempt = 0;
            offset = (fragment.seq ?? offset) + 1;
            yield* decoder.push(fragment);
          }
        } else if (event.case === "end") {
          if (!isOk(event.value)) {
            throw StatusError.of(event.value);
          }
          return;
        }
      }
      throw new StatusError("UNAVAILABLE", "the node's stream broke off");
    } catch (error) {
      await pauseOrThrow(error, attempt, options.signal);
    }
  }
}

/**
 * Writes a node: values in order, then {@link finish}, or {@link fail}. With `await using`,
 * a block that is left before its `finish` leaves the node unfinished, which readers get.
 */
export class NodeWriter implements AsyncDisposable {
  readonly #write: (messages: NodeFragment[], close: Status | undefined) => Promise<void>;
  readonly #id: string;
  readonly #mediaType: string;
  #next = 0;
  #sent = 0;
  #hasEnded = false;
  /** Said again only where it changes: it holds until then. */
  #saidType = "";
  #pending: NodeFragment[] = [];
  #flushing: Promise<void> | undefined;

  /** @internal */
  constructor(
    transport: Transport,
    owner: NodeOwner,
    id: string,
    { mediaType = JSON_TYPE, signal }: WriteNodeOptions,
  ) {
    const client = createClient(NodeService, transport);
    const rpc = signal === undefined ? {} : { signal };
    this.#id = id;
    this.#mediaType = mediaType;
    this.#write = async (fragments, close) => {
      async function* requests() {
        yield { message: { case: "start" as const, value: { ...owner, id } } };
        if (fragments.length > 0) {
          yield { message: { case: "fragments" as const, value: { fragments } } };
        }
        if (close !== undefined) {
          yield { message: { case: "close" as const, value: close } };
        }
      }
      for (let attempt = 0; ; attempt++) {
        try {
          // What arrived twice changes nothing.
          await client.writeNode(requests(), rpc);
          return;
        } catch (error) {
          await pauseOrThrow(error, attempt, signal);
        }
      }
    };
  }

  /**
   * Writes the next value, by the node's media type as an output's would be, or a
   * {@link Chunk}. Resolves when the service has it.
   *
   * @throws StatusError INVALID_ARGUMENT for a value that does not fit, FAILED_PRECONDITION
   * (NODE_CLOSED) after the end.
   */
  async write(value: unknown): Promise<void> {
    const what = `node "${this.#id}"`;
    if (this.#hasEnded) {
      throw new StatusError("FAILED_PRECONDITION", `${what} has ended`, { reason: "NODE_CLOSED" });
    }
    if (
      kindOf(this.#mediaType) === "text" &&
      typeof value !== "string" &&
      !(value instanceof Chunk)
    ) {
      throw invalid(
        `${what}: ${this.#mediaType} takes a text, not ${nameOf(value)}`,
        "INVALID_INPUT",
      );
    }
    const chunk = chunkOf(what, this.#mediaType, value);
    this.#add(fragmentOf(this.#id, chunk, true, this.#saidType));
    this.#saidType = chunk.mediaType;
    await this.#flush(this.#next);
  }

  /** Writes the end of the node. */
  async finish(): Promise<void> {
    if (!this.#hasEnded) {
      this.#hasEnded = true;
      this.#add(endOf(this.#id));
    }
    await this.#flush(this.#next);
  }

  /** Closes the node with a failure, which every reader gets; without one, unfinished. */
  async fail(failure?: Failure): Promise<void> {
    const how = failure && StatusError.ofFailure(`node "${this.#id}"`, failure).toStatus();
    if (!this.#hasEnded) {
      this.#hasEnded = true;
      await this.#flush(this.#next);
      await this.#write([], how ?? ok());
    }
  }

  /** Closes the node unfinished, where it has not ended; with a service that is gone, not. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.fail().catch(() => {});
  }

  #add(fragment: NodeFragment): void {
    fragment.seq = this.#next++;
    this.#pending.push(fragment);
  }

  /** Sends what waits, up to a fragment; what is added meanwhile goes with the next request. */
  async #flush(upTo: number): Promise<void> {
    while (this.#sent < upTo) {
      await (this.#flushing ?? this.#send());
    }
  }

  async #send(): Promise<void> {
    const fragments = this.#pending.splice(0, BATCH_FRAGMENTS);
    this.#flushing = this.#write(fragments, undefined).then(() => {
      this.#sent += fragments.length;
    });
    try {
      await this.#flushing;
    } catch (error) {
      // Whoever writes on writes these first.
      this.#pending.unshift(...fragments);
      throw error;
    } finally {
      this.#flushing = undefined;
    }
  }
}

/** Waits before another attempt, where one may help. */
async function pauseOrThrow(
  error: unknown,
  attempt: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  const failure = StatusError.from(error);
  const mayHelp = failure.code === "UNAVAILABLE" && failure.reason === "UNSPECIFIED";
  if (!mayHelp || attempt >= ATTEMPTS || signal?.aborted) {
    throw failure;
  }
  await pauseFor(LEAST_PAUSE_MS * 2 ** attempt, signal);
}
