/** What a model is told of the actions that it may call. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { DeclareToolsRequestSchema } from "../gen/a11/v1/action_service_pb.js";
import { type JsonValue, parseJson } from "../wire/json.js";
import { type BackendName, backendOf, patternsOf } from "./execute.js";

/** Which actions a model is told of. */
export interface ToolsOptions {
  /**
   * As for `execute`, which takes the same list: patterns of names (RE2-like), matched
   * whole. None: no tool.
   */
  readonly allow?: string | readonly string[] | undefined;
  /**
   * Which of the provider's shapes: for gpt `chat` (the default), `responses` or
   * `functions`, for gemini `interactions` (the default) or `generate_content`.
   */
  readonly dialect?: string | undefined;
  /** Headers of the request, as of `execute`. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** An element of a provider's `tools`, in its own shape. */
export type Tool = { [key: string]: JsonValue };

/** The request for a provider's tools. */
export function toolsRequestOf(
  backend: BackendName,
  { allow, dialect = "" }: ToolsOptions,
): MessageInitShape<typeof DeclareToolsRequestSchema> {
  return { allowedActions: patternsOf(allow), backend: backendOf(backend), dialect };
}

/** The tools of an answer. */
export function toolsOf(tools: readonly string[]): Tool[] {
  return tools.map((tool) => parseJson(tool) as Tool);
}
