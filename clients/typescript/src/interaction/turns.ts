/** Turns of a conversation, built and appended without a server. */

import { create } from "@bufbuild/protobuf";
import { type Interaction, InteractionSchema, Role } from "../gen/a11/v1/interaction_pb.js";
import { Chunk, encodeText, TEXT } from "../wire/chunk.js";
import type { JsonValue } from "../wire/json.js";
import { invalid } from "../wire/status.js";

type Picture = Chunk | Uint8Array;

/** What a user turn has beside its text. */
export interface UserTurnOptions {
  /**
   * Pictures, after the text, or one: the bytes of a PNG, JPEG, GIF or WebP, or a `Chunk` that
   * says what they are, such as `new Chunk("image/avif", bytes)`.
   */
  readonly images?: Picture | readonly Picture[];
  /** The turn before it. */
  readonly previous?: Interaction | string;
  /** Default: a new UUID. */
  readonly id?: string;
  /** System prompt material. */
  readonly system?: string;
}

/**
 * A user's turn: a text, and pictures.
 *
 * @throws StatusError INVALID_ARGUMENT for a picture of an unknown kind, or half of a
 * surrogate pair.
 */
export function userTurn(text = "", options: UserTurnOptions = {}): Interaction {
  const { images = [], previous, system } = options;
  const isOne = images instanceof Chunk || images instanceof Uint8Array;
  const texts = (text: string) => new Chunk(TEXT, encodeText(text));
  return create(InteractionSchema, {
    id: options.id ?? crypto.randomUUID(),
    role: Role.USER,
    createdAtMillis: BigInt(Date.now()),
    previousInteractionId: typeof previous === "string" ? previous : (previous?.id ?? ""),
    systemInstructions: system === undefined ? [] : [texts(system).toWire()],
    content: [
      ...(text === "" ? [] : [texts(text)]),
      ...(isOne ? [images] : images).map(picture),
    ].map((chunk) => chunk.toWire()),
    status: {},
  });
}

const SIGNATURES: readonly [signature: string, mediaType: string][] = [
  ["\x89PNG\r\n\x1a\n", "image/png"],
  ["\xff\xd8\xff", "image/jpeg"],
  ["GIF8", "image/gif"],
];

function picture(image: Picture): Chunk {
  if (image instanceof Chunk) {
    if (!image.mediaType.startsWith("image/")) {
      throw invalid(`"${image.mediaType}" is not the media type of a picture`);
    }
    return image;
  }
  const head = String.fromCharCode(...image.subarray(0, 12));
  const known = SIGNATURES.find(([signature]) => head.startsWith(signature))?.[1];
  const mediaType = head.startsWith("RIFF") && head.endsWith("WEBP") ? "image/webp" : known;
  if (mediaType === undefined) {
    throw invalid("a picture is none of PNG, JPEG, GIF and WebP: give a Chunk with its media type");
  }
  return new Chunk(mediaType, image);
}

/** What came of a model's calls, to be appended: a result of `execute`, or its parts. */
export interface Appendable {
  readonly messages: readonly JsonValue[];
  readonly interaction: Interaction;
  /** The provider whose shape the messages have; none: there are none. */
  readonly backend?: string | undefined;
}

/**
 * Appends what follows a model's turn to a conversation: to a list of interactions the next
 * one, else the messages. An empty list is taken for one of messages.
 *
 * @throws StatusError INVALID_ARGUMENT where the result has no messages for a provider.
 */
export function appendResult(conversation: unknown[], result: Appendable): void {
  const last = conversation.at(-1) as Partial<Interaction> | undefined;
  if (last?.$typeName === InteractionSchema.typeName) {
    conversation.push(result.interaction);
    return;
  }
  if (result.messages.length === 0 && result.backend === undefined) {
    throw invalid("the result was not shaped for a provider: name a `backend` when executing");
  }
  conversation.push(...result.messages);
}
