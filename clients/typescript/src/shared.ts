/** What the package offers in Node and in browsers alike. */

export { Context } from "./action/context.js";
export type { LogOptions } from "./action/log.js";
export type {
  Arguments,
  Call,
  CallEvent,
  Caller,
  CallOptions,
  LogEntry,
  LogLevel,
  StreamOptions,
} from "./action/options.js";
export { bytes, stream, text } from "./action/ports.js";
export {
  type ActionDefinition,
  type Handler,
  type HeaderDefinition,
  type PortHandler,
  Registry,
  type WrittenSchema,
} from "./action/registry.js";
export { Client, type ClientOptions } from "./client/client.js";
export type {
  ActionConfig,
  BackendName,
  CallResult,
  ExecuteEvent,
  ExecuteOptions,
  RejectedCall,
  Reply,
  Result,
} from "./client/execute.js";
export type { OnRefused } from "./client/hosted.js";
export type {
  Appended,
  ConversationRecord,
  Converted,
  Fork,
  Interactions,
  Normalized,
  NormalizedPart,
  Note,
  Problem,
  Validation,
} from "./client/interactions.js";
export type { NodeOptions, NodeWriter, WriteNodeOptions } from "./client/nodes.js";
export type { Tool, ToolsOptions } from "./client/tools.js";
export type { Turn } from "./client/turn.js";
export type { ActionSchema, PortSchema } from "./gen/a11/v1/action_pb.js";
export type { Interaction } from "./gen/a11/v1/interaction_pb.js";
export {
  interactionFromJson,
  interactionFromProtoJson,
  interactionToJson,
  interactionToProtoJson,
} from "./interaction/portable.js";
export {
  type Appendable,
  appendResult,
  type UserTurnOptions,
  userTurn,
} from "./interaction/turns.js";
export { isSame as isSameInteraction } from "./interaction/validity.js";
export { version } from "./version.js";
export { Chunk, type ChunkOptions } from "./wire/chunk.js";
export type { Headers } from "./wire/headers.js";
export type { JsonValue } from "./wire/json.js";
export {
  type CallStatus,
  Code,
  type CodeName,
  ConnectError,
  type Failure,
  type ReasonName,
  StatusError,
} from "./wire/status.js";
