/** Call headers: names without case, values as bytes. */

import { decodeText, encodeText } from "./chunk.js";
import { isName } from "./name.js";
import { invalid } from "./status.js";

/** The deadline header; sent as the time left instead. */
export const DEADLINE = "x-a11-deadline";
/** The request metadata that names the caller's own session. */
export const SESSION = "x-a11-session";
/** The key of a model's call: of one call, and flows no further. */
export const IDEMPOTENCY_KEY = "x-a11-idempotency-key";

/** Headers as they are given: name → text or bytes. */
export type HeadersInit = Readonly<Record<string, string | Uint8Array>>;

/** Header name (lower case) → value. */
export type WireHeaders = { [name: string]: Uint8Array<ArrayBuffer> };

/**
 * Headers as they are sent.
 *
 * @throws StatusError INVALID_ARGUMENT that names the header which is none.
 */
export function wireHeaders(headers: HeadersInit | undefined): WireHeaders {
  const entries = Object.entries(headers ?? {}).map(([name, value]) => [
    name.toLowerCase(),
    bytesOf(name, value),
  ]);
  return Object.fromEntries(entries) as WireHeaders;
}

function bytesOf(name: string, value: unknown): Uint8Array {
  if (!isName(name)) {
    throw invalid(`"${name}" is no name of a header: letters, digits, _ and -`);
  }
  if (typeof value === "string") {
    if (!value.isWellFormed()) {
      throw invalid(`header "${name}": a text with half of a surrogate pair`);
    }
    return encodeText(value);
  }
  if (value instanceof Uint8Array) {
    return value;
  }
  throw invalid(`header "${name}": a value is a text or a Uint8Array, not ${typeof value}`);
}

/** Whether a header flows into nested calls without being declared. */
export function flows(name: string): boolean {
  const known = name.startsWith("x-a11-") || name.startsWith("x-otel-");
  return known && name !== IDEMPOTENCY_KEY && name !== DEADLINE;
}

/** The headers of a call, for its handler. */
export class Headers {
  readonly #values: WireHeaders;

  /** @internal */
  constructor(values: WireHeaders) {
    this.#values = values;
  }

  /** A header as text; `undefined` where it is absent, or no UTF-8. */
  text(name: string): string | undefined {
    const value = this.bytes(name);
    try {
      return value === undefined ? undefined : decodeText(value);
    } catch {
      return undefined;
    }
  }

  /** A header as bytes; `undefined` where it is absent. */
  bytes(name: string): Uint8Array | undefined {
    return this.#values[name.toLowerCase()];
  }

  /** All of them, by name in lower case. */
  entries(): [string, Uint8Array][] {
    return Object.entries(this.#values);
  }
}
