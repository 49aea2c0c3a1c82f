/** A turn of a conversation, in the forms that it may be given in. */

import { create } from "@bufbuild/protobuf";
import { ChunkSchema } from "../gen/a11/v1/chunk_pb.js";
import { type Interaction, InteractionSchema, Role } from "../gen/a11/v1/interaction_pb.js";
import { interactionFromJson, interactionFromProtoJson } from "../interaction/portable.js";
import { encodeText, JSON_TYPE } from "../wire/chunk.js";
import { type JsonValue, parseJson, stringifyReply } from "../wire/json.js";
import { invalid } from "../wire/status.js";

/** An interaction, the JSON of one (text or parsed), or a provider's message as it came. */
export type Turn = Interaction | string | object;

/** Fields that nothing but an interaction has, in the portable JSON. */
const OWN = [
  "action_calls",
  "action_configs",
  "action_inputs",
  "action_outputs",
  "backend_specific_metadata",
  "created_at_millis",
  "system_instructions",
];
/** The same in proto JSON. */
const OWN_PROTO = OWN.map((name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase()));
/** Fields that the messages and replies of providers have, and no interaction; as in the service. */
const FOREIGN = [
  "candidates",
  "choices",
  "done",
  "error",
  "function_call",
  "images",
  "input",
  "message",
  "messages",
  "modelVersion",
  "object",
  "output",
  "outputs",
  "parts",
  "promptFeedback",
  "responseId",
  "steps",
  "stop_reason",
  "text",
  "tool_call_id",
  "tool_calls",
  "tool_name",
  "type",
  "usage",
];
/** Who speaks in the messages of providers, where it is not the model. */
const USERS: readonly unknown[] = ["user", "tool", "developer", "system"];

/** Whether a value is an interaction of the protocol. */
export function isInteraction(value: unknown): value is Interaction {
  return (value as { $typeName?: unknown } | null)?.$typeName === InteractionSchema.typeName;
}

/**
 * The interaction of a turn: a provider's message becomes one that holds it.
 *
 * @throws StatusError INVALID_ARGUMENT for what has no JSON form, is no JSON, or no message.
 */
export function turnOf(turn: Turn): Interaction {
  if (isInteraction(turn)) {
    return turn;
  }
  const text = jsonOf(turn, "turn");
  const value = parsed(text);
  if (![value].flat().every(isObject)) {
    throw invalid(
      `a turn is an Interaction, its JSON, or a provider's message: an object or a list of objects, not ${text.slice(0, 40)}`,
    );
  }
  if (hasAny(value, OWN_PROTO)) {
    return interactionFromProtoJson(text);
  }
  if (hasAny(value, OWN) || holdsChunks(value)) {
    return interactionFromJson(text);
  }
  const role = (value as { role?: unknown } | null)?.role;
  return holding(text, USERS.includes(role) ? Role.USER : Role.MODEL);
}

/** Whether a text is a provider's message, and no interaction's JSON; what is no JSON is neither. */
export function isMessage(text: string): boolean {
  let value: JsonValue;
  try {
    value = parseJson(text);
  } catch {
    return false;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return Array.isArray(value);
  }
  if (hasAny(value, OWN_PROTO) || hasAny(value, OWN) || holdsChunks(value)) {
    return false;
  }
  const { role, content } = value;
  return (
    hasAny(value, FOREIGN) ||
    typeof content === "string" ||
    ["assistant", "tool", "developer"].includes(String(role))
  );
}

/**
 * The turn under an id, and after another; the one given is never changed.
 *
 * @throws StatusError INVALID_ARGUMENT where it has others itself.
 */
export function placed(turn: Interaction, id: string, previous: string): Interaction {
  for (const [name, own, given] of [
    ["id", turn.id, id],
    ["previous", turn.previousInteractionId, previous],
  ] as const) {
    if (own !== "" && given !== "" && own !== given) {
      throw invalid(`${name}: "${given}" was given, and the turn has "${own}" itself`);
    }
  }
  return {
    ...turn,
    id: turn.id || id || crypto.randomUUID(),
    previousInteractionId: turn.previousInteractionId || previous,
  };
}

/** An interaction that holds a provider's message. */
export function holding(json: string, role: Role): Interaction {
  const turn = create(InteractionSchema, { role });
  turn.content = [
    create(ChunkSchema, {
      metadata: { mediaType: JSON_TYPE },
      body: { case: "data", value: encodeText(json) },
    }),
  ];
  return turn;
}

/** A message as JSON text. */
export function jsonOf(message: string | object, what: string): string {
  if (message instanceof Promise) {
    throw invalid(`the ${what} is a Promise; await it`);
  }
  try {
    return typeof message === "string" ? message : stringifyReply(message);
  } catch (error) {
    throw invalid(`the ${what} has no JSON form: ${(error as Error).message}`);
  }
}

function parsed(text: string): JsonValue {
  try {
    return parseJson(text);
  } catch (error) {
    throw invalid(`the turn is not JSON: ${(error as Error).message}`);
  }
}

function isObject(value: JsonValue): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function hasAny(value: JsonValue, fields: readonly string[]): boolean {
  return (
    typeof value === "object" &&
    value !== null &&
    fields.some((field) => Object.hasOwn(value, field))
  );
}

/** Whether the content is chunks, which no provider's is. */
function holdsChunks(value: JsonValue): boolean {
  const content = (value as { content?: unknown } | null)?.content;
  const isChunk = (it: unknown) =>
    typeof it === "object" && it !== null && ("metadata" in it || "data" in it) && !("type" in it);
  return Array.isArray(content) && content.length > 0 && content.every(isChunk);
}
