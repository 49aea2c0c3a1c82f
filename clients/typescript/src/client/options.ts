/** Options as they are given: those that there are, and no others. */

import { invalid } from "../wire/status.js";

/**
 * Refuses what is no option: a wish that nobody would hear.
 *
 * @param of - What the options are of, such as `call`.
 * @throws StatusError INVALID_ARGUMENT that names it.
 */
export function checkOptions(options: object, known: readonly string[], of: string): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw invalid(`the options of ${of} are an object: { ${known[0]}: … }`);
  }
  for (const key of Object.keys(options)) {
    if (!known.includes(key)) {
      throw invalid(`${of} has no option "${key}"; there are: ${known.join(", ")}`);
    }
  }
}

const CALL_OPTIONS = ["timeout", "headers", "onLog", "signal"] as const;
/** What a call and a stream are made with. */
export const STREAM_OPTIONS = [...CALL_OPTIONS, "port"] as const;
export const EXECUTE_OPTIONS = [
  "allow",
  "backend",
  "timeout",
  "maxOutputBytes",
  "maxMediaBytes",
  "store",
  "conversation",
  "interactionId",
  "actionConfigs",
  "rejected",
  "headers",
  "signal",
] as const;
const CLIENT_OPTIONS = ["name", "metadata", "registry", "onRefused"] as const;
export const NODE_OPTIONS = [...CLIENT_OPTIONS, "tls"] as const;
export const WEB_OPTIONS = [...CLIENT_OPTIONS, "WebSocket", "fetch"] as const;
