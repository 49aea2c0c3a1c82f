/** Turns of a conversation, built and appended without a server. */

import { create } from "@bufbuild/protobuf";
import { ChunkSchema } from "../gen/a11/v1/chunk_pb.js";
import { type Interaction, InteractionSchema, Role } from "../gen/a11/v1/interaction_pb.js";
import { Chunk, encodeText, TEXT } from "../wire/chunk.js";
import type { JsonValue } from "../wire/json.js";
import { invalid } from "../wire/status.js";

/** What a user turn has beside its text. */
export interface UserTurnOptions {
  /** Pictures, after the text: such as `new Chunk("image/png", bytes)`. */
  readonly images?: readonly Chunk[];
  /** The turn before it. */
  readonly previous?: Interaction | string;
  /** Default: a new UUID. */
  readonly id?: string;
  /** System prompt material. */
  readonly system?: string;
}

/** A user's turn: a text, and pictures. */
export function userTurn(text: string, options: UserTurnOptions = {}): Interaction {
  const { images = [], previous, system } = options;
  for (const image of images) {
    if (!image.mediaType.startsWith("image/")) {
      throw invalid(`"${image.mediaType}" is not the media type of a picture`);
    }
  }
  const texts = (text: string) => new Chunk(TEXT, encodeText(text));
  return create(InteractionSchema, {
    id: options.id ?? crypto.randomUUID(),
    role: Role.USER,
    createdAtMillis: BigInt(Date.now()),
    previousInteractionId: typeof previous === "string" ? previous : (previous?.id ?? ""),
    systemInstructions: system === undefined ? [] : [wire(texts(system))],
    content: [texts(text), ...images].map(wire),
    status: {},
  });
}

/** What came of a model's calls, to be appended: a result of `execute`, or its parts. */
export interface Appendable {
  readonly messages: readonly JsonValue[];
  readonly interaction: Interaction;
}

/**
 * Appends a result: its messages to a provider's messages, its turn to interactions. What
 * is given is not changed. An empty list is taken for one of messages.
 */
export function appendResult(
  interactions: readonly Interaction[],
  result: Appendable,
): Interaction[];
export function appendResult<T>(messages: readonly T[], result: Appendable): (T | JsonValue)[];
export function appendResult(history: readonly unknown[], result: Appendable): unknown[] {
  const last = history.at(-1) as Partial<Interaction> | undefined;
  return last?.$typeName === InteractionSchema.typeName
    ? [...history, result.interaction]
    : [...history, ...result.messages];
}

function wire({ mediaType, data }: Chunk) {
  return create(ChunkSchema, {
    metadata: { mediaType },
    body: { case: "data", value: data as Uint8Array<ArrayBuffer> },
  });
}
