/** Interaction → portable JSON. */

import type { ActionMessage, PortBinding } from "../gen/a11/v1/action_pb.js";
import type { Chunk, ChunkMetadata, NodeFragment } from "../gen/a11/v1/chunk_pb.js";
import type { ActionConfig, Interaction, UsageMetadata } from "../gen/a11/v1/interaction_pb.js";
import type { Status } from "../gen/a11/v1/status_pb.js";
import { encodeBase64 } from "../wire/base64.js";
import { type JsonValue, parseJson } from "../wire/json.js";
import { reasonName } from "../wire/status.js";
import { COUNTERS } from "./portable-read.js";
import { writeTimestamp } from "./timestamp.js";

type JsonObject = { [key: string]: JsonValue };

const ROLES = ["user", "user", "model", "system"];

/** The document of an interaction that is valid and in its canonical form. */
export function write(interaction: Interaction): JsonObject {
  return {
    id: interaction.id,
    role: ROLES[interaction.role] ?? "user",
    created_at_millis: numberOf(interaction.createdAtMillis),
    previous_interaction_id: interaction.previousInteractionId,
    model: interaction.model,
    status: interaction.status === undefined ? null : writeStatus(interaction.status),
    system_instructions: interaction.systemInstructions.map(writeChunk),
    action_configs: mapOf(interaction.actionConfigs, writeConfig),
    content: interaction.content.map(writeChunk),
    action_calls: interaction.actionCalls.map(writeCall),
    action_inputs: mapOf(interaction.actionInputs, ({ fragments }) => fragments.map(writeFragment)),
    action_outputs: mapOf(interaction.actionOutputs, ({ fragments }) =>
      fragments.map(writeFragment),
    ),
    backend_specific_metadata: mapOf(interaction.backendSpecificMetadata, encodeBase64),
    usage_metadata:
      interaction.usageMetadata === undefined ? null : writeUsage(interaction.usageMetadata),
  };
}

/** A whole number; one that a double cannot hold stays a bigint. */
function numberOf(value: bigint | undefined): JsonValue {
  if (value === undefined) {
    return null;
  }
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function mapOf<T>(map: { [key: string]: T }, write: (value: T) => JsonValue): JsonObject {
  return Object.fromEntries(Object.entries(map).map(([key, value]) => [key, write(value)]));
}

function writeStatus({ code, message, details, reason }: Status): JsonObject {
  return {
    code,
    message,
    ...(details.length === 0 ? {} : { details: details.map(parseJson) }),
    ...(reason === 0 ? {} : { reason: reasonName(reason) }),
  };
}

function writeChunk({ metadata, body }: Chunk): JsonObject {
  return {
    ...(body.case === "data" ? { data: encodeBase64(body.value) } : {}),
    ...(body.case === "ref" ? { data: "" } : {}),
    ...(metadata === undefined ? {} : { metadata: writeMetadata(metadata) }),
    ...(body.case === "ref" ? { ref: body.value } : {}),
  };
}

function writeMetadata({ mediaType, timestamp, attributes }: ChunkMetadata): JsonObject {
  const moment = timestamp && writeTimestamp(timestamp);
  return {
    ...(mediaType === "" ? {} : { mimetype: mediaType }),
    ...(moment === undefined ? {} : { timestamp: moment }),
    ...(Object.keys(attributes).length === 0
      ? {}
      : { attributes: mapOf(attributes, encodeBase64) }),
  };
}

function writeFragment({ id, payload, seq, continued }: NodeFragment): JsonObject {
  let data: JsonObject | undefined;
  if (payload.case === "chunk") {
    data = writeChunk(payload.value);
  } else if (payload.case === "nodeRef") {
    const { id, offset, length } = payload.value;
    data = {
      id,
      ...(offset === undefined ? {} : { offset }),
      ...(length === undefined ? {} : { length }),
    };
  }
  return {
    ...(data === undefined ? {} : { data }),
    id,
    ...(seq === undefined ? {} : { seq }),
    ...(continued ? { continued } : {}),
  };
}

function writeCall({ id, name, inputs, outputs, headers }: ActionMessage): JsonObject {
  const bindings = (list: PortBinding[]) => list.map(({ name, id }) => ({ name, id }));
  return {
    id,
    name,
    ...(inputs.length === 0 ? {} : { inputs: bindings(inputs) }),
    ...(outputs.length === 0 ? {} : { outputs: bindings(outputs) }),
    ...(Object.keys(headers).length === 0 ? {} : { headers: mapOf(headers, encodeBase64) }),
  };
}

function writeConfig({ peer, headerAutofills }: ActionConfig): JsonObject {
  const { protocol, scheme, identity, endpoint } = peer ?? {};
  return {
    ...(peer === undefined ? {} : { peer: { protocol, scheme, identity, endpoint } as JsonObject }),
    header_autofills: mapOf(headerAutofills, encodeBase64),
  };
}

function writeUsage(usage: UsageMetadata): JsonObject {
  const said = COUNTERS.filter(([field]) => usage[field] !== undefined);
  return Object.fromEntries(said.map(([field, name]) => [name, numberOf(usage[field])]));
}
