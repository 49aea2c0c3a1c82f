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
  const { signal, onLog } = options as { signal?: unknown; onLog?: unknown };
  const listens = (signal as AbortSignal | undefined)?.addEventListener;
  if (signal !== undefined && typeof listens !== "function") {
    throw invalid("signal: give an AbortSignal, such as AbortSignal.timeout(1000)");
  }
  if (onLog !== undefined && typeof onLog !== "function") {
    throw invalid("onLog: give a function");
  }
}

/**
 * Headers that go as a request's metadata.
 *
 * @throws StatusError INVALID_ARGUMENT that names the one which cannot.
 */
export function checkMetadata(headers: Readonly<Record<string, unknown>> | undefined): void {
  for (const [name, value] of Object.entries(headers ?? {})) {
    if (!/^[A-Za-z0-9_.-]+$/.test(name)) {
      throw invalid(`metadata "${name}" is no name: letters, digits, -, _ and .`);
    }
    if (typeof value !== "string" || !/^[\x20-\x7e]*$/.test(value)) {
      throw invalid(`metadata "${name}": a value is a text of printable ASCII`);
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
const NODE_PLACE = ["session", "run", "signal"] as const;
export const READ_OPTIONS = [...NODE_PLACE, "offset"] as const;
export const WRITE_OPTIONS = [...NODE_PLACE, "mediaType"] as const;
const CLIENT_OPTIONS = ["name", "metadata", "registry", "onRefused"] as const;
export const NODE_OPTIONS = [...CLIENT_OPTIONS, "tls"] as const;
export const WEB_OPTIONS = [...CLIENT_OPTIONS, "WebSocket", "fetch"] as const;
