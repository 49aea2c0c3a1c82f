/** Conversations that a service keeps, and its conversions between providers. */

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { type Client, createClient, type Transport } from "@connectrpc/connect";
import { type Interaction, InteractionSchema } from "../gen/a11/v1/interaction_pb.js";
import {
  type EncodedInteraction,
  EncodedInteractionSchema,
  type InteractionRecord,
  InteractionService,
} from "../gen/a11/v1/interaction_service_pb.js";
import { interactionFromJson } from "../interaction/portable.js";
import { pauseFor } from "../session/pause.js";
import { Chunk, decodeText, encodeText } from "../wire/chunk.js";
import { type JsonValue, parseJson } from "../wire/json.js";
import { invalid, type ReasonName, reasonName, StatusError } from "../wire/status.js";
import { type BackendName, backendOf } from "./execute.js";
import { isInteraction, type Turn, turnOf } from "./turn.js";

const PROTOBUF = "application/x-protobuf;type=a11.v1.Interaction";
const JSON_FORM = "application/json;type=a11.sdk.Interaction";

/** An interaction in a conversation. */
export interface ConversationRecord {
  readonly conversation: string;
  /** Its place, from 1. */
  readonly position: number;
  readonly id: string;
  readonly appendedAt: Date | undefined;
  readonly interaction: Interaction;
}

/** What came of an append. */
export interface Appended {
  readonly position: number;
  readonly appendedAt: Date | undefined;
  /** Whether it was there before. */
  readonly existed: boolean;
}

/** An interaction that more than one other follows. */
export interface Fork {
  readonly id: string;
  readonly position: number;
  /** The ids of those that follow it, in order; the first 1,000. */
  readonly nextIds: readonly string[];
}

/** A part of an interaction, in no provider's shape. */
export type NormalizedPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image"; readonly image: Chunk }
  | { readonly type: "image_url"; readonly url: string }
  | {
      readonly type: "tool_call";
      readonly id: string;
      readonly name: string;
      readonly arguments: JsonValue;
    }
  | {
      readonly type: "tool_result";
      readonly callId: string;
      readonly content: string;
      readonly isError: boolean;
    };

/** A turn in no provider's shape. */
export interface Normalized {
  readonly role: "user" | "model" | "system";
  readonly parts: NormalizedPart[];
}

/** What is wrong with an interaction, and where; not `refused`: a note. */
export interface Problem {
  readonly field: string;
  readonly message: string;
  readonly refused: boolean;
  readonly reason: ReasonName;
}

/** Whether an interaction would be accepted, and what there is to say of it. */
export interface Validation {
  readonly valid: boolean;
  readonly problems: Problem[];
}

/** What a provider is to be sent. */
export interface Converted {
  readonly messages: JsonValue[];
  /** The system prompt, where the provider takes it beside the messages. */
  readonly system: string | undefined;
  /** What the provider cannot be sent, and what was added for it to take the rest. */
  readonly dropped: readonly Note[];
  readonly added: readonly Note[];
}

/** What became of a part of a conversation, and why. */
export interface Note {
  readonly interactionId: string;
  readonly what: string;
  readonly why: string;
}

/** The conversations of a service; {@link Client.interactions}. */
export class Interactions {
  readonly #client: Client<typeof InteractionService>;

  /** @internal */
  constructor(transport: Transport) {
    this.#client = createClient(InteractionService, transport);
  }

  /**
   * Appends an interaction, or its portable JSON; the first makes the conversation. What
   * is appended is kept byte for byte. Idempotent.
   */
  async append(conversation: string, interaction: Interaction | string): Promise<Appended> {
    const body = { case: "encoded" as const, value: encode(interaction) };
    const { position, appendedAt, existed } = await ask(
      this.#client.appendInteraction({ conversation, body }),
    );
    return {
      position: Number(position),
      appendedAt: appendedAt && timestampDate(appendedAt),
      existed,
    };
  }

  /** One interaction by its id. */
  async get(conversation: string, id: string): Promise<ConversationRecord> {
    const { record } = await ask(this.#client.getInteraction({ conversation, id }));
    return recordOf(record);
  }

  /** The interactions of a conversation, in order; after a position, or all. */
  async *list(
    conversation: string,
    options: { readonly afterPosition?: number } = {},
  ): AsyncGenerator<ConversationRecord, void, undefined> {
    let afterPosition = positionOf(options.afterPosition);
    do {
      const page = await ask(this.#client.listInteractions({ conversation, afterPosition }));
      yield* page.records.map(recordOf);
      afterPosition = page.nextAfterPosition;
    } while (afterPosition !== 0n);
  }

  /**
   * The interactions of a conversation in order, and then each that is appended, until the
   * loop is left. A lost connection is made anew: nothing is missed, nothing comes twice.
   */
  async *watch(
    conversation: string,
    options: { readonly afterPosition?: number; readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<ConversationRecord, void, undefined> {
    let afterPosition = positionOf(options.afterPosition);
    const rpc = options.signal === undefined ? {} : { signal: options.signal };
    for (let pause = 50; ; pause = Math.min(pause * 2, 2000)) {
      try {
        for await (const { event } of this.#client.watchInteractions(
          { conversation, afterPosition },
          rpc,
        )) {
          if (event.case === "record") {
            pause = 50;
            afterPosition = event.value.position;
            yield recordOf(event.value);
          }
        }
      } catch (error) {
        const failure = StatusError.from(error);
        if (failure.code !== "UNAVAILABLE" || options.signal?.aborted) {
          throw failure;
        }
      }
      await pauseFor(pause, options.signal);
    }
  }

  /** Deletes a conversation; answers how many interactions it had. */
  async delete(conversation: string): Promise<number> {
    return Number((await ask(this.#client.deleteConversation({ conversation }))).deleted);
  }

  /** The names of the conversations that there are, or of those that begin so. */
  async *conversations(prefix = ""): AsyncGenerator<string, void, undefined> {
    let pageToken = "";
    do {
      const page = await ask(
        this.#client.listConversations({ namePrefix: prefix, pageToken, pageSize: 1000 }),
      );
      yield* page.conversations.map(({ name }) => name);
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
  }

  /** The interactions that more than one other follows, in order; after a position, or all. */
  async *forks(
    conversation: string,
    options: { readonly afterPosition?: number } = {},
  ): AsyncGenerator<Fork, void, undefined> {
    let afterPosition = positionOf(options.afterPosition);
    do {
      const page = await ask(
        this.#client.listForks({ conversation, afterPosition, pageSize: 1000 }),
      );
      yield* page.forks.map(({ id, position, nextIds }) => ({
        id,
        position: Number(position),
        nextIds,
      }));
      afterPosition = page.nextAfterPosition;
    } while (afterPosition !== 0n);
  }

  /** Everything that is wrong with an interaction, or the JSON of one, and notes. */
  async validate(turn: Turn): Promise<Validation> {
    // The JSON as it is: what is wrong with it is the service's to say.
    const body =
      typeof turn === "string"
        ? { case: "interactionJson" as const, value: turn }
        : { case: "interaction" as const, value: turnOf(turn) };
    const { valid, problems } = await ask(this.#client.validateInteraction({ body }));
    return {
      valid,
      problems: problems.map(({ field, message, refused, reason }) => ({
        field,
        message,
        refused,
        reason: reasonName(reason),
      })),
    };
  }

  /** A turn in no provider's shape: its texts, pictures, calls and results. */
  async normalize(turn: Turn): Promise<Normalized> {
    const { role, parts } = await ask(
      this.#client.normalizeInteraction({ body: { case: "interaction", value: turnOf(turn) } }),
    );
    const read = parts.flatMap(({ part }): NormalizedPart[] => {
      switch (part.case) {
        case "text":
          return [{ type: "text", text: part.value }];
        case "image":
          return [{ type: "image", image: Chunk.of(part.value, "") }];
        case "imageUrl":
          return [{ type: "image_url", url: part.value }];
        case "toolCall": {
          const { id, name, argumentsJson } = part.value;
          return [{ type: "tool_call", id, name, arguments: parseJson(argumentsJson) }];
        }
        case "toolResult": {
          const { callId, content, isError } = part.value;
          return [{ type: "tool_result", callId, content, isError }];
        }
        case undefined:
          return [];
      }
    });
    return { role: role === 2 ? "model" : role === 3 ? "system" : "user", parts: read };
  }

  /**
   * A conversation, by its name or as its turns, as the exact messages that a provider is
   * to be sent next.
   *
   * @param source - A conversation's name, or a list of turns.
   * @param options.dialect - For gpt `chat`, `responses` or `functions`; for gemini
   * `interactions` or `generate_content`.
   */
  async convert(
    source: string | readonly Turn[],
    options: {
      readonly to: BackendName;
      readonly dialect?: string;
      readonly upToPosition?: number;
    },
  ): Promise<Converted> {
    const from =
      typeof source === "string"
        ? { conversation: source, upToPosition: positionOf(options.upToPosition) }
        : { interactions: source.map(turnOf) };
    const { messages, system, dropped, added } = await ask(
      this.#client.convertInteractions({
        ...from,
        to: backendOf(options.to),
        dialect: options.dialect ?? "",
      }),
    );
    return { messages: messages.map(parseJson), system, dropped, added };
  }
}

function encode(interaction: Interaction | string): EncodedInteraction {
  if (typeof interaction !== "string" && !isInteraction(interaction)) {
    throw invalid("append takes an Interaction, or its JSON text: interactionFromJson makes one");
  }
  return create(
    EncodedInteractionSchema,
    typeof interaction === "string"
      ? { mediaType: JSON_FORM, data: encodeText(interaction) }
      : { mediaType: PROTOBUF, data: toBinary(InteractionSchema, interaction) },
  );
}

function positionOf(position = 0): bigint {
  if (!Number.isSafeInteger(position) || position < 0) {
    throw invalid(`${position} is no position: those are whole numbers from 1`);
  }
  return BigInt(position);
}

function recordOf(record: InteractionRecord | undefined): ConversationRecord {
  if (record === undefined) {
    throw new StatusError("INTERNAL", "the service sent no record");
  }
  const { conversation, position, id, appendedAt, body } = record;
  return {
    conversation,
    position: Number(position),
    id,
    appendedAt: appendedAt && timestampDate(appendedAt),
    interaction: body.case === "interaction" ? body.value : decode(body.value),
  };
}

function decode(encoded: EncodedInteraction | undefined): Interaction {
  const { mediaType = "", data = new Uint8Array() } = encoded ?? {};
  return mediaType.includes("json")
    ? interactionFromJson(decodeText(data))
    : fromBinary(InteractionSchema, data);
}

async function ask<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw StatusError.from(error);
  }
}
