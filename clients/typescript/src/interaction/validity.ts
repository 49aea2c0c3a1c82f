/** What an interaction must be, and the form that equal interactions share. */

import { clone, equals } from "@bufbuild/protobuf";
import type { Chunk } from "../gen/a11/v1/chunk_pb.js";
import { type Interaction, InteractionSchema, Role } from "../gen/a11/v1/interaction_pb.js";
import { faultOfChunk, faultOfText } from "../wire/chunk-limits.js";
import { parseJson, stringifyJson } from "../wire/json.js";
import { isName } from "../wire/name.js";
import { Reason } from "../wire/status.js";
import { malformed } from "./fields.js";

/** The longest id of an interaction, in characters. */
const MAX_TEXT_LENGTH = 255;

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
  const fault = faultOfChunk({
    mediaType: metadata?.mediaType ?? "",
    timestamp: metadata?.timestamp,
    attributes: metadata?.attributes ?? {},
    ref: body.case === "ref" ? body.value : undefined,
  });
  if (fault !== undefined) {
    const [field, what] = fault;
    // Portable JSON has another name for it.
    throw malformed(
      `${path}.${field === "metadata.media_type" ? "metadata.mimetype" : field}`,
      what,
    );
  }
}

function length(text: string, most: number, path: string): void {
  const fault = faultOfText(text, most);
  if (fault !== undefined) {
    throw malformed(path, fault);
  }
}
