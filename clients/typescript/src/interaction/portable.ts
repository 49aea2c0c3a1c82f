/** An interaction in its two JSON forms. */

import { fromJsonString, type JsonValue as ProtoJson, toJson } from "@bufbuild/protobuf";
import { type Interaction, InteractionSchema } from "../gen/a11/v1/interaction_pb.js";
import { type JsonValue, parseJson, stringifyJson } from "../wire/json.js";
import { invalid, StatusError } from "../wire/status.js";
import { Fields } from "./fields.js";
import { read } from "./portable-read.js";
import { write } from "./portable-write.js";
import { canonical } from "./validity.js";

/**
 * Reads the portable JSON: snake_case, base64 bytes, `role: "user" | "model" | "system"`.
 * Unknown fields are ignored.
 *
 * @throws StatusError INVALID_ARGUMENT that names the field which is malformed.
 */
export function interactionFromJson(json: string | object): Interaction {
  return canonical(read(typeof json === "string" ? json : textOf(json)));
}

/** Writes the portable JSON on one line, every field there. */
export function interactionToJson(interaction: Interaction): string {
  return stringifyJson(write(canonical(interaction)));
}

/**
 * Reads the proto3 JSON, which tools that speak protobuf write. Unknown fields are
 * ignored.
 *
 * @throws StatusError INVALID_ARGUMENT where it is none.
 */
export function interactionFromProtoJson(json: string | object): Interaction {
  let message: Interaction;
  try {
    const text = typeof json === "string" ? json : textOf(json);
    new Fields(parseJson(text), "");
    message = fromJsonString(InteractionSchema, text, { ignoreUnknownFields: true });
  } catch (error) {
    throw error instanceof StatusError
      ? error
      : invalid(`interaction: ${(error as Error).message}`);
  }
  return canonical(message);
}

/** Writes the proto3 JSON on one line. */
export function interactionToProtoJson(interaction: Interaction): string {
  return stringifyJson(toJson(InteractionSchema, canonical(interaction)) as ProtoJson as JsonValue);
}

function textOf(json: object): string {
  try {
    return stringifyJson(json);
  } catch (error) {
    throw invalid(`interaction: ${(error as Error).message}`);
  }
}
