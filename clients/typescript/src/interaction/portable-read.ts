/** Portable JSON → interaction. */

import { create } from "@bufbuild/protobuf";
import {
  type ActionMessage,
  ActionMessageSchema,
  type PortBinding,
  PortBindingSchema,
} from "../gen/a11/v1/action_pb.js";
import {
  type Chunk,
  type ChunkMetadata,
  ChunkMetadataSchema,
  ChunkSchema,
  type NodeFragment,
  NodeFragmentSchema,
  type NodeFragments,
  NodeFragmentsSchema,
  NodeRefSchema,
} from "../gen/a11/v1/chunk_pb.js";
import {
  ActionConfigSchema,
  type Interaction,
  InteractionSchema,
  type Peer,
  PeerSchema,
  Role,
  type UsageMetadata,
  UsageMetadataSchema,
} from "../gen/a11/v1/interaction_pb.js";
import { Reason, type Status, StatusSchema } from "../gen/a11/v1/status_pb.js";
import { type JsonValue, parseJson, stringifyJson } from "../wire/json.js";
import { peerOf } from "../wire/peer.js";
import { StatusError } from "../wire/status.js";
import { Fields, malformed } from "./fields.js";
import { readTimestamp } from "./timestamp.js";

const ROLES: Readonly<Record<string, Role>> = {
  user: Role.USER,
  model: Role.MODEL,
  system: Role.SYSTEM,
};

/** What a document says, as it stands there. @throws StatusError that names the field. */
export function read(text: string): Interaction {
  let document: JsonValue;
  try {
    document = parseJson(text);
  } catch (error) {
    throw malformed("interaction", `not JSON: ${(error as Error).message}`);
  }
  const fields = new Fields(document, "");
  const interaction = create(InteractionSchema, {
    id: fields.text("id") ?? "",
    role: roleOf(fields),
    previousInteractionId: fields.text("previous_interaction_id") ?? "",
    model: fields.text("model") ?? "",
    systemInstructions: fields.list("system_instructions", readChunk),
    content: fields.list("content", readChunk),
    actionCalls: fields.list("action_calls", readCall),
    actionInputs: readFragments(fields, "action_inputs"),
    actionOutputs: readFragments(fields, "action_outputs"),
    backendSpecificMetadata: fields.bytesMap("backend_specific_metadata"),
    actionConfigs: fields.map("action_configs", (configs, name) => {
      const config = configs.object(name);
      const headerAutofills = config?.bytesMap("header_autofills") ?? {};
      const message = create(ActionConfigSchema, { headerAutofills });
      const peer = config && readPeer(config);
      if (peer !== undefined) {
        message.peer = peer;
      }
      return message;
    }),
  });
  const created = fields.int64("created_at_millis");
  if (created !== undefined) {
    interaction.createdAtMillis = created;
  }
  // A status that is null is none; one that is absent is OK.
  if (!fields.isNull("status")) {
    interaction.status = readStatus(fields.object("status"));
  }
  const usage = fields.object("usage_metadata");
  if (usage !== undefined) {
    interaction.usageMetadata = readUsage(usage);
  }
  return interaction;
}

function roleOf(fields: Fields): Role {
  const name = fields.text("role") ?? "user";
  const role = ROLES[name];
  if (role === undefined) {
    throw malformed("role", `unknown role "${name}", expected user, model or system`);
  }
  return role;
}

function readStatus(fields: Fields | undefined): Status {
  if (fields === undefined) {
    return create(StatusSchema);
  }
  const code = fields.value("code") ?? 0;
  if (typeof code !== "number" || !Number.isInteger(code)) {
    throw malformed(fields.at("code"), "is not a whole number");
  }
  const name = fields.text("reason") ?? "UNSPECIFIED";
  const reason = (Reason as unknown as Record<string, Reason>)[name];
  if (typeof reason !== "number") {
    throw malformed(fields.at("reason"), `unknown reason "${name}"`);
  }
  return create(StatusSchema, {
    code,
    message: fields.text("message") ?? "",
    details: fields.list("details", (detail) => stringifyJson(detail)),
    reason,
  });
}

function readChunk(value: JsonValue, path: string): Chunk {
  const fields = new Fields(value, path);
  const data = fields.bytes("data");
  const ref = fields.text("ref");
  const metadata = fields.object("metadata");
  const chunk = create(ChunkSchema);
  if (metadata !== undefined) {
    chunk.metadata = readMetadata(metadata);
  }
  if (ref !== undefined && ref !== "") {
    if (data !== undefined && data.length > 0) {
      throw malformed(path, "has both data and a ref");
    }
    chunk.body = { case: "ref", value: ref };
  } else if (data !== undefined) {
    chunk.body = { case: "data", value: data };
  } else if (ref !== undefined) {
    throw malformed(path, "ref must not be empty");
  }
  return chunk;
}

function readMetadata(fields: Fields): ChunkMetadata {
  const metadata = create(ChunkMetadataSchema, {
    mediaType: fields.text("mimetype") ?? "",
    attributes: fields.bytesMap("attributes"),
  });
  const text = fields.text("timestamp");
  if (text !== undefined) {
    const timestamp = readTimestamp(text);
    if (timestamp === undefined) {
      throw malformed(fields.at("timestamp"), "not an RFC 3339 timestamp in years 1 to 9999");
    }
    metadata.timestamp = timestamp;
  }
  return metadata;
}

function readFragments(fields: Fields, name: string): { [call: string]: NodeFragments } {
  return fields.map(name, (calls, call) =>
    create(NodeFragmentsSchema, { fragments: calls.list(call, readFragment) }),
  );
}

function readFragment(value: JsonValue, path: string): NodeFragment {
  const fields = new Fields(value, path);
  const fragment = create(NodeFragmentSchema, {
    id: fields.text("id") ?? "",
    continued: fields.flag("continued") ?? false,
  });
  const seq = fields.uint32("seq");
  if (seq !== undefined) {
    fragment.seq = seq;
  }
  const data = fields.object("data");
  const node = data?.text("id");
  if (data !== undefined && node !== undefined) {
    const reference = create(NodeRefSchema, { id: node });
    const [offset, length] = [data.uint32("offset"), data.uint32("length")];
    if (offset !== undefined) {
      reference.offset = offset;
    }
    if (length !== undefined) {
      reference.length = length;
    }
    fragment.payload = { case: "nodeRef", value: reference };
  } else if (data !== undefined) {
    const chunk = readChunk(fields.value("data") ?? null, fields.at("data"));
    fragment.payload = { case: "chunk", value: chunk };
  }
  return fragment;
}

function readCall(value: JsonValue, path: string): ActionMessage {
  const fields = new Fields(value, path);
  return create(ActionMessageSchema, {
    id: fields.text("id") ?? "",
    name: fields.text("name") ?? "",
    inputs: fields.list("inputs", readBinding),
    outputs: fields.list("outputs", readBinding),
    headers: fields.bytesMap("headers"),
  });
}

function readBinding(value: JsonValue, path: string): PortBinding {
  const fields = new Fields(value, path);
  return create(PortBindingSchema, {
    name: fields.text("name") ?? "",
    id: fields.text("id") ?? "",
  });
}

/** A peer, as text or by its parts. */
function readPeer(config: Fields): Peer | undefined {
  const value = config.value("peer");
  if (value === undefined) {
    return undefined;
  }
  if (typeof value === "string") {
    try {
      return peerOf(value);
    } catch (error) {
      throw malformed(config.at("peer"), StatusError.from(error).message);
    }
  }
  const fields = new Fields(value, config.at("peer"));
  const part = (name: string) => fields.text(name) ?? "";
  return create(PeerSchema, {
    protocol: part("protocol"),
    scheme: part("scheme"),
    identity: part("identity"),
    endpoint: part("endpoint"),
  });
}

const COUNTERS = [
  ["inputTokens", "input_tokens"],
  ["outputTokens", "output_tokens"],
  ["totalTokens", "total_tokens"],
  ["cachedInputTokens", "cached_input_tokens"],
  ["cacheWriteTokens", "cache_write_tokens"],
  ["reasoningTokens", "reasoning_tokens"],
] as const;

/** The counters of a usage, as the message and as the document name them. */
export { COUNTERS };

function readUsage(fields: Fields): UsageMetadata {
  const usage = create(UsageMetadataSchema);
  for (const [field, name] of COUNTERS) {
    const count = fields.uint64(name);
    if (count !== undefined) {
      usage[field] = count;
    }
  }
  return usage;
}
