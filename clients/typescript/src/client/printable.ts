/** Objects that `JSON.stringify` writes whatever is in them; for people and logs. */

import { interactionToJson } from "../interaction/portable.js";
import { encodeBase64 } from "../wire/base64.js";
import { parseJson } from "../wire/json.js";
import { isInteraction } from "./turn.js";

/**
 * The object with a `toJSON` beside its fields: interactions are written as portable JSON,
 * whole numbers beyond 2^53 as their digits in a text, bytes as base64.
 */
export function printable<T extends object>(object: T): T {
  const toJSON = () =>
    Object.fromEntries(Object.entries(object).map(([key, value]) => [key, plain(value)]));
  return Object.defineProperty(object, "toJSON", { value: toJSON });
}

function plain(value: unknown): unknown {
  if (typeof value === "bigint") {
    return value.toString();
  }
  if (typeof value !== "object" || value === null || value instanceof Date) {
    return value;
  }
  if (Array.isArray(value)) {
    return value.map(plain);
  }
  if (isInteraction(value)) {
    return plain(parseJson(interactionToJson(value)));
  }
  if (value instanceof Uint8Array) {
    return encodeBase64(value);
  }
  return Object.fromEntries(Object.entries(value).map(([key, it]) => [key, plain(it)]));
}
