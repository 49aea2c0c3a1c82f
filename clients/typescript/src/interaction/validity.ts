/** What an interaction must be, and the form that equal interactions share. */

import { clone, equals } from "@bufbuild/protobuf";
import type { Chunk } from "../gen/a11/v1/chunk_pb.js";
import { type Interaction, InteractionSchema, Role } from "../gen/a11/v1/interaction_pb.js";
import { parseJson, stringifyJson } from "../wire/json.js";
import { isName } from "../wire/name.js";
import { Reason } from "../wire/status.js";
import { malformed } from "./fields.js";
import { writeTimestamp } from "./timestamp.js";

/** The longest id of an interaction, and the longest media type, in characters. */
const MAX_TEXT_LENGTH = 255;
/** The longest reference to where bytes are, in characters. */
const MAX_REF_LENGTH = 2048;
/** How many attributes a chunk has at most, and the bytes of their names and values in all. */
const MAX_ATTRIBUTES = 64;
const MAX_ATTRIBUTE_BYTES = 64 * 1024;

/**
 * The canonical form: the role is said, a media type that repeats its predecessor's in
 * `content` is dropped, details have no white space between their tokens.
 *
 * @throws StatusError INVALID_ARGUMENT that names the field which is refused.
 */
export function canonical(interaction: Interaction): Interaction {
  check(interaction);
  const form = clone(InteractionSchema, interaction);
  form.role = form.role === Role.UNSPECIFIED ? Role.USER : form.role;
  let current = "";
  for (const chunk of form.content) {
    const mediaType = chunk.metadata?.mediaType ?? "";
    if (chunk.metadata === undefined || mediaType === "") {
      continue;
    }
    if (mediaType !== current) {
      current = mediaType;
      continue;
    }
    chunk.metadata.mediaType = "";
    const { timestamp, attributes } = chunk.metadata;
    if (timestamp === undefined && Object.keys(attributes).length === 0) {
      delete chunk.metadata;
    }
  }
  if (form.status !== undefined) {
    form.status.details = form.status.details.map((detail) => stringifyJson(parseJson(detail)));
  }
  return form;
}

/** Whether two interactions say the same. */
export function isSame(a: Interaction, b: Interaction): boolean {
  return equals(InteractionSchema, canonical(a), canonical(b));
}

function check(interaction: Interaction): void {
  length(interaction.id, MAX_TEXT_LENGTH, "id");
  length(interaction.previousInteractionId, MAX_TEXT_LENGTH, "previous_interaction_id");
  if (Role[interaction.role] === undefined) {
    throw malformed("role", `${interaction.role} is not the number of a role`);
  }
  const { status } = interaction;
  if (status !== undefined) {
    if (status.code < 0 || status.code > 16) {
      throw malformed("status.code", `${status.code} is not a status code; they go from 0 to 16`);
    }
    if (Reason[status.reason] === undefined) {
      throw malformed("status.reason", `${status.reason} is not the number of a reason`);
    }
    for (const [index, detail] of status.details.entries()) {
      try {
        parseJson(detail);
      } catch (error) {
        throw malformed(`status.details[${index}]`, `not JSON: ${(error as Error).message}`);
      }
    }
  }
  for (const [index, chunk] of interaction.systemInstructions.entries()) {
    checkChunk(chunk, `system_instructions[${index}]`);
  }
  for (const [index, chunk] of interaction.content.entries()) {
    checkChunk(chunk, `content[${index}]`);
  }
  checkCalls(interaction);
  for (const [map, calls] of [
    ["action_inputs", interaction.actionInputs],
    ["action_outputs", interaction.actionOutputs],
  ] as const) {
    for (const [call, { fragments }] of Object.entries(calls)) {
      for (const [index, { payload }] of fragments.entries()) {
        if (payload.case === "chunk") {
          checkChunk(payload.value, `${map}.${call}[${index}].data`);
        }
      }
    }
  }
}

function checkCalls({ actionCalls }: Interaction): void {
  const seen = new Set<string>();
  for (const [index, { id, name }] of actionCalls.entries()) {
    if (id !== "" && !isName(id)) {
      throw malformed(`action_calls[${index}].id`, `"${id}" is not a name`);
    }
    if (name !== "" && !isName(name)) {
      throw malformed(`action_calls[${index}].name`, `"${name}" is not a name`);
    }
    if (id !== "" && seen.has(id)) {
      throw malformed(`action_calls[${index}].id`, `another call has the id "${id}" too`);
    }
    seen.add(id);
  }
}

function checkChunk({ metadata, body }: Chunk, path: string): void {
  if (metadata !== undefined) {
    length(metadata.mediaType, MAX_TEXT_LENGTH, `${path}.metadata.mimetype`);
    if (metadata.timestamp !== undefined && writeTimestamp(metadata.timestamp) === undefined) {
      throw malformed(`${path}.metadata.timestamp`, "must lie in years 1 to 9999");
    }
    const attributes = Object.entries(metadata.attributes);
    if (attributes.length > MAX_ATTRIBUTES) {
      const fault = `there are ${attributes.length}, and may be ${MAX_ATTRIBUTES}`;
      throw malformed(`${path}.metadata.attributes`, fault);
    }
    const size = attributes.reduce(
      (sum, [name, value]) => sum + new TextEncoder().encode(name).length + value.length,
      0,
    );
    if (size > MAX_ATTRIBUTE_BYTES) {
      const fault = `${size} bytes in all, and may have ${MAX_ATTRIBUTE_BYTES}`;
      throw malformed(`${path}.metadata.attributes`, fault);
    }
    for (const [name] of attributes) {
      if (!isName(name)) {
        throw malformed(`${path}.metadata.attributes.${name}`, "is not a name");
      }
    }
  }
  if (body.case === "ref") {
    if (body.value === "") {
      throw malformed(`${path}.ref`, "a ref must not be empty");
    }
    length(body.value, MAX_REF_LENGTH, `${path}.ref`);
  }
}

function length(text: string, most: number, path: string): void {
  const characters = text.length > most ? [...text].length : 0;
  if (characters > most) {
    throw malformed(path, `has ${characters} characters, and may have ${most}`);
  }
  if (!text.isWellFormed()) {
    throw malformed(path, "has half of a surrogate pair");
  }
}
