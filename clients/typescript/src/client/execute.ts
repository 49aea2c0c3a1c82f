/** Running a model's tool calls: the request, the result, and the events on the way. */

import { create } from "@bufbuild/protobuf";
import { Decoder } from "../action/decoder.js";
import { readLog } from "../action/log.js";
import type { LogEntry } from "../action/options.js";
import type { ActionSchema } from "../gen/a11/v1/action_pb.js";
import {
  type ExecuteActionsFromInteractionRequest,
  ExecuteActionsFromInteractionRequestSchema,
  type ExecuteActionsFromInteractionResponse,
  type StreamActionsFromInteractionResponse,
} from "../gen/a11/v1/action_service_pb.js";
import { ChunkSchema, type NodeFragment } from "../gen/a11/v1/chunk_pb.js";
import {
  ActionConfigSchema,
  Backend,
  type Interaction,
  InteractionSchema,
  Role,
} from "../gen/a11/v1/interaction_pb.js";
import { durationOf } from "../session/core/core.js";
import { encodeText, JSON_TYPE, OCTETS } from "../wire/chunk.js";
import { type HeadersInit, wireHeaders } from "../wire/headers.js";
import { type JsonValue, parseJson, stringifyJson } from "../wire/json.js";
import { peerOf } from "../wire/peer.js";
import {
  type CodeName,
  codeName,
  invalid,
  type ReasonName,
  reasonName,
  status,
} from "../wire/status.js";

/** A provider's message shape. */
export type BackendName =
  | "claude"
  | "claude_code"
  | "codex"
  | "gemini"
  | "gpt"
  | "ollama"
  | "vllm"
  | keyof typeof MAKERS;

/** What people call a shape by, beside its name. */
const MAKERS = { anthropic: "claude", google: "gemini", openai: "gpt" } as const;

/** Where one action runs, and headers to add to its calls. */
export interface ActionConfig {
  /** Such as `a11://$sender` (the default), `a11://SESSION`, `mcp://HOST/PATH`. */
  readonly peer?: string;
  readonly headers?: HeadersInit;
}

/** A call that was refused before it is sent. */
export interface RejectedCall {
  /** Its place among all the calls the model made, from 0. */
  readonly position: number;
  readonly id: string;
  readonly name: string;
  readonly code: CodeName;
  readonly message: string;
}

/** How a model's calls may run. */
export interface ExecuteOptions {
  /** Patterns of names (RE2-like), matched whole. Nothing else runs; none: nothing. */
  readonly allow?: readonly string[] | undefined;
  /** The provider whose shape `messages` have; unset: that of the reply. */
  readonly backend?: BackendName | undefined;
  /** How long a call may take, in milliseconds. Default 300,000. */
  readonly timeout?: number | undefined;
  /** How many bytes a call may put out, pictures and sound apart. Default 131,072. */
  readonly maxOutputBytes?: number | undefined;
  /** The same for pictures and sound. Default 8,388,608. */
  readonly maxMediaBytes?: number | undefined;
  /** Keep a record of the round; needs `conversation`. */
  readonly store?: boolean | undefined;
  readonly conversation?: string | undefined;
  /** The id that a provider's reply, which has none, is recorded under. */
  readonly interactionId?: string | undefined;
  /**
   * Action name → where it runs: a config, or the peer alone. With a provider's reply, or
   * an `Interaction`; the JSON of one is read with `interactionFromJson` first.
   */
  readonly actionConfigs?: Readonly<Record<string, ActionConfig | string>> | undefined;
  /** Calls that were refused already; they get their results in place. */
  readonly rejected?: readonly RejectedCall[] | undefined;
  /** Headers of every call. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** How one call ended. */
export interface CallResult {
  readonly id: string;
  readonly name: string;
  readonly status: {
    readonly code: CodeName;
    readonly reason: ReasonName;
    readonly message: string;
  };
  /** What it narrated for the user. */
  readonly log: string;
  /** The whole result, or an object of its fields; `undefined` where it failed. */
  readonly value: unknown;
}

/** What came of a model's calls. */
export interface Result {
  /** What to append for the provider, each ready for its API. */
  readonly messages: JsonValue[];
  /** The next user turn, as a record. */
  readonly interaction: Interaction;
  /** One a call, in the order the model made them. */
  readonly results: CallResult[];
  /** The provider whose shape `messages` have. */
  readonly backend: BackendName | undefined;
}

/** Something that happened while a model's calls ran; the result is last. */
export type ExecuteEvent =
  | { readonly type: "started"; readonly id: string; readonly name: string }
  | { readonly type: "log"; readonly id: string; readonly entry: LogEntry }
  | { readonly type: "output"; readonly id: string; readonly fragments: NodeFragment[] }
  | { readonly type: "finished"; readonly result: Omit<CallResult, "value"> }
  | { readonly type: "result"; readonly result: Result };

/** What is executed: an interaction, its JSON text, or a provider's reply as it came. */
export type Reply = Interaction | string | object;

/** The request for a reply. */
export function requestOf(
  reply: Reply,
  options: ExecuteOptions,
): ExecuteActionsFromInteractionRequest {
  const request = create(ExecuteActionsFromInteractionRequestSchema, {
    allowedActions: [...(options.allow ?? [])],
    backend: backendOf(options.backend),
    store: options.store ?? false,
    conversation: options.conversation ?? "",
    interactionId: options.interactionId ?? "",
    rejectedCalls: (options.rejected ?? []).map(({ position, id, name, code, message }) => ({
      position,
      id,
      name,
      status: status(code, message),
    })),
  });
  if (options.timeout !== undefined) {
    request.callTimeout = durationOf(options.timeout);
  }
  if (options.maxOutputBytes !== undefined) {
    request.maxOutputBytes = options.maxOutputBytes;
  }
  if (options.maxMediaBytes !== undefined) {
    request.maxMediaBytes = options.maxMediaBytes;
  }
  if (isInteraction(reply)) {
    request.interaction = configured(reply, options.actionConfigs);
  } else if (options.actionConfigs === undefined) {
    request.interactionJson = jsonOf(reply);
  } else {
    const turn = create(InteractionSchema, { role: Role.MODEL });
    turn.content = [
      create(ChunkSchema, {
        metadata: { mediaType: JSON_TYPE },
        body: { case: "data", value: encodeText(jsonOf(reply)) },
      }),
    ];
    request.interaction = configured(turn, options.actionConfigs);
  }
  return request;
}

/** Whether a value is an interaction of the protocol. */
export function isInteraction(value: unknown): value is Interaction {
  return (value as { $typeName?: unknown } | null)?.$typeName === InteractionSchema.typeName;
}

function jsonOf(reply: string | object): string {
  try {
    return typeof reply === "string" ? reply : stringifyJson(reply);
  } catch (error) {
    throw invalid(`the reply has no JSON form: ${(error as Error).message}`);
  }
}

/** The turn with where its actions run; the one given is never changed. */
function configured(turn: Interaction, configs: ExecuteOptions["actionConfigs"]): Interaction {
  if (configs === undefined) {
    return turn;
  }
  const actionConfigs = { ...turn.actionConfigs };
  for (const [name, config] of Object.entries(configs)) {
    const { peer, headers } = typeof config === "string" ? { peer: config } : config;
    actionConfigs[name] = create(ActionConfigSchema, { headerAutofills: wireHeaders(headers) });
    if (peer !== undefined) {
      actionConfigs[name].peer = peerOf(peer);
    }
  }
  return { ...turn, actionConfigs };
}

/** The number of a provider's shape. */
export function backendOf(name: BackendName | undefined): Backend {
  if (name === undefined) {
    return Backend.UNSPECIFIED;
  }
  const named = (MAKERS as Record<string, string>)[name] ?? name;
  const backend = (Backend as unknown as Record<string, Backend>)[named.toUpperCase()];
  if (backend === undefined || backend === Backend.UNSPECIFIED) {
    const known = "claude, claude_code, codex, gemini, gpt, ollama, vllm";
    throw invalid(`"${name}" is no backend; there are: ${known}`);
  }
  return backend;
}

/** The result of a response; `schemaOf` knows what its actions put out. */
export async function resultOf(
  response: ExecuteActionsFromInteractionResponse,
  schemaOf: (name: string) => Promise<ActionSchema | undefined>,
): Promise<Result> {
  const interaction = response.interaction ?? create(InteractionSchema);
  const results = response.results.map(async (call) => {
    const fragments = interaction.actionOutputs[call.id]?.fragments ?? [];
    const wellEnded = (call.status?.code ?? 0) === 0;
    const schema = wellEnded ? await schemaOf(call.name) : undefined;
    const value = wellEnded ? resultValue(fragments, schema) : undefined;
    return { ...callResultOf(call), value };
  });
  const backend = Backend[response.backend]?.toLowerCase() as BackendName | "unspecified";
  return {
    messages: response.messages.map(parseJson),
    interaction,
    results: await Promise.all(results),
    backend: backend === "unspecified" ? undefined : backend,
  };
}

function callResultOf(
  call: ExecuteActionsFromInteractionResponse["results"][number],
): Omit<CallResult, "value"> {
  const { code = 0, message = "", reason = 0 } = call.status ?? {};
  return {
    id: call.id,
    name: call.name,
    status: { code: codeName(code), reason: reasonName(reason), message },
    log: call.log,
  };
}

/** The event of a message; `undefined` for one of a kind that is not known here. */
export async function eventOf(
  { event }: StreamActionsFromInteractionResponse,
  schemaOf: (name: string) => Promise<ActionSchema | undefined>,
): Promise<ExecuteEvent | undefined> {
  switch (event.case) {
    case "started":
      return { type: "started", id: event.value.id, name: event.value.name };
    case "log": {
      const entry = event.value.entry && readLog(event.value.entry);
      return entry && { type: "log", id: event.value.id, entry };
    }
    case "output":
      return { type: "output", id: event.value.id, fragments: event.value.fragments };
    case "finished":
      return { type: "finished", result: callResultOf(event.value) };
    case "summary":
      return { type: "result", result: await resultOf(event.value, schemaOf) };
    case undefined:
      return undefined;
  }
}

/** The fragment id of a port that is the whole result. */
const WHOLE = "_";

function resultValue(
  fragments: readonly NodeFragment[],
  schema: ActionSchema | undefined,
): unknown {
  const fields = new Map<string, NodeFragment[]>();
  for (const fragment of fragments) {
    fields.set(fragment.id, [...(fields.get(fragment.id) ?? []), fragment]);
  }
  const values = [...fields].map(([field, parts]) => {
    const name = field === WHOLE ? "$" : field;
    const mapped = Object.entries(schema?.outputToJsonField ?? {}).find(([, to]) => to === name);
    const port = schema?.outputs.find((port) => port.name === (mapped?.[0] ?? field));
    return [field, fieldOf(parts, port?.unary ?? isUnary(parts))] as const;
  });
  const whole = values.find(([field]) => field === WHOLE);
  return whole === undefined ? Object.fromEntries(values) : whole[1];
}

/** A lone piece that is final is one value, as far as can be told without a schema. */
function isUnary(parts: readonly NodeFragment[]): boolean {
  return parts.length === 1 && parts[0]?.continued === false;
}

function fieldOf(parts: readonly NodeFragment[], unary: boolean): unknown {
  const decoder = new Decoder({ name: "", mediaType: OCTETS, unary });
  const values = parts.flatMap((part) => decoder.push(part) as unknown[]);
  return unary ? values[0] : values;
}
