/** Running a model's tool calls: what is asked for, and what comes of it. */

import { create } from "@bufbuild/protobuf";
import type { LogEntry } from "../action/options.js";
import {
  type ExecuteActionsFromInteractionRequest,
  ExecuteActionsFromInteractionRequestSchema,
} from "../gen/a11/v1/action_service_pb.js";
import {
  ActionConfigSchema,
  Backend,
  type Interaction,
  Role,
} from "../gen/a11/v1/interaction_pb.js";
import { durationOf } from "../session/core/core.js";
import { type HeadersInit, wireHeaders } from "../wire/headers.js";
import type { JsonValue } from "../wire/json.js";
import { peerOf } from "../wire/peer.js";
import { type CallStatus, type Failure, invalid, StatusError } from "../wire/status.js";
import { timeoutOf } from "./timeout.js";
import { holding, isInteraction, jsonOf } from "./turn.js";

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
  /** Why: a `StatusError`, or `{ code, message }`. */
  readonly status: Failure;
}

/** How a model's calls may run. */
export interface ExecuteOptions {
  /** Patterns of names (RE2-like), matched whole. Nothing else runs; none: nothing. */
  readonly allow?: string | readonly string[] | undefined;
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
  readonly status: CallStatus;
  /** What it narrated for the user. */
  readonly log: string;
  /**
   * As `call` answers it: the one output's value, or an object of the outputs where the
   * action has several; `undefined` where it failed.
   */
  readonly value: unknown;
  /** All that it put out, output → value; empty where it failed. */
  readonly outputs: Readonly<Record<string, unknown>>;
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

/** Something that happened while a model's calls ran; the summary is last. */
export type ExecuteEvent =
  | { readonly type: "started"; readonly id: string; readonly name: string }
  | { readonly type: "narrated"; readonly id: string; readonly log: LogEntry }
  /** `field` is where the value stands in the result document, `_` for all of it. */
  | {
      readonly type: "produced";
      readonly id: string;
      readonly field: string;
      readonly value: unknown;
    }
  /** The value is told with the summary. */
  | { readonly type: "ended"; readonly result: Omit<CallResult, "value" | "outputs"> }
  | { readonly type: "summary"; readonly result: Result };

/** What is executed: an interaction, its JSON text, or a provider's reply as it came. */
export type Reply = Interaction | string | object;

/**
 * The request for a reply.
 *
 * @throws StatusError INVALID_ARGUMENT for options that cannot be meant.
 */
export function requestOf(
  reply: Reply,
  options: ExecuteOptions,
): ExecuteActionsFromInteractionRequest {
  const request = create(ExecuteActionsFromInteractionRequestSchema, {
    allowedActions: patternsOf(options.allow),
    backend: backendOf(options.backend),
    store: options.store ?? false,
    conversation: options.conversation ?? "",
    interactionId: options.interactionId ?? "",
    rejectedCalls: (options.rejected ?? []).map(({ position, id, name, status }) => ({
      position,
      id,
      name,
      status: StatusError.ofFailure(`rejected "${id}"`, status).toStatus(),
    })),
  });
  const timeout = timeoutOf(options.timeout);
  if (timeout !== undefined) {
    request.callTimeout = durationOf(timeout);
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
    request.interactionJson = jsonOf(reply, "reply");
  } else {
    const turn = holding(jsonOf(reply, "reply"), Role.MODEL);
    request.interaction = configured(turn, options.actionConfigs);
  }
  return request;
}

/** The patterns of an allow-list. */
export function patternsOf(allow: ExecuteOptions["allow"] = []): string[] {
  return typeof allow === "string" ? [allow] : [...allow];
}

/** The turn with where its actions run; the one given is never changed. */
function configured(turn: Interaction, configs: ExecuteOptions["actionConfigs"]): Interaction {
  if (configs === undefined) {
    return turn;
  }
  const actionConfigs = { ...turn.actionConfigs };
  for (const [name, config] of Object.entries(configs)) {
    const { peer, headers } = configOf(name, config);
    actionConfigs[name] = create(ActionConfigSchema, { headerAutofills: wireHeaders(headers) });
    if (peer !== undefined) {
      actionConfigs[name].peer = peerOf(peer);
    }
  }
  return { ...turn, actionConfigs };
}

/** A config as it is meant; a key that is none would be a wish that nobody hears. */
function configOf(name: string, config: unknown): ActionConfig {
  if (typeof config === "string") {
    return { peer: config };
  }
  const what = `actionConfigs "${name}"`;
  if (typeof config !== "object" || config === null || Array.isArray(config)) {
    throw invalid(`${what}: give a peer, such as "a11://$sender", or { peer, headers }`);
  }
  for (const key of Object.keys(config)) {
    if (key !== "peer" && key !== "headers") {
      throw invalid(`${what}: there is no "${key}"; a config has peer and headers`);
    }
  }
  return config as ActionConfig;
}

/** The number of a provider's shape. */
export function backendOf(name: BackendName | undefined): Backend {
  if (name === undefined) {
    return Backend.UNSPECIFIED;
  }
  const makers: Record<string, string> = MAKERS;
  const named = Object.hasOwn(makers, name) ? makers[name] : name;
  const backend = (Backend as unknown as Record<string, Backend>)[String(named).toUpperCase()];
  if (typeof backend !== "number" || backend === Backend.UNSPECIFIED) {
    const known = "claude, claude_code, codex, gemini, gpt, ollama, vllm";
    throw invalid(`"${name}" is no backend; there are: ${known}`);
  }
  return backend;
}
