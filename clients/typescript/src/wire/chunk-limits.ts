/** What a chunk may have beside its bytes: the bounds of `chunk.proto`, as the service has them. */

import { isName } from "./name.js";

/** The longest media type, in characters. */
const MAX_MEDIA_TYPE_LENGTH = 255;
/** The longest reference to where bytes are, in characters. */
const MAX_REF_LENGTH = 2048;
/** How many attributes a chunk has at most, and the bytes of their names and values in all. */
const MAX_ATTRIBUTES = 64;
const MAX_ATTRIBUTE_BYTES = 64 * 1024;
/** The seconds of the years 1 to 9999. */
const FIRST_SECOND = -62_135_596_800;
const LAST_SECOND = 253_402_300_799;

/** What is bounded. */
export interface Bounded {
  readonly mediaType: string;
  /** Since 1970. */
  readonly timestamp: { readonly seconds: bigint; readonly nanos: number } | undefined;
  readonly attributes: Readonly<Record<string, Uint8Array>>;
  readonly ref: string | undefined;
}

/** Which field of a chunk is wrong, and how; `undefined`: none. */
export function faultOfChunk(chunk: Bounded): [field: string, fault: string] | undefined {
  const { mediaType, timestamp, attributes, ref } = chunk;
  const type = faultOfText(mediaType, MAX_MEDIA_TYPE_LENGTH);
  if (type !== undefined) {
    return ["metadata.media_type", type];
  }
  if (timestamp !== undefined && !isInRange(Number(timestamp.seconds), timestamp.nanos)) {
    return ["metadata.timestamp", "must lie in years 1 to 9999"];
  }
  const names = Object.keys(attributes);
  if (names.length > 0) {
    const fault = faultOfAttributes(names, attributes);
    if (fault !== undefined) {
      return fault;
    }
  }
  if (ref === "") {
    return ["ref", "a ref must not be empty"];
  }
  const place = ref === undefined ? undefined : faultOfText(ref, MAX_REF_LENGTH);
  return place === undefined ? undefined : ["ref", place];
}

/** What is wrong with a text of so many characters at the most. */
export function faultOfText(text: string, most: number): string | undefined {
  const characters = text.length > most ? [...text].length : 0;
  if (characters > most) {
    return `has ${characters} characters, and may have ${most}`;
  }
  return text.isWellFormed() ? undefined : "has half of a surrogate pair";
}

/** Whether a moment, since 1970, can be said. */
export function isInRange(seconds: number, nanos: number): boolean {
  return seconds >= FIRST_SECOND && seconds <= LAST_SECOND && nanos >= 0 && nanos < 1_000_000_000;
}

function faultOfAttributes(
  names: readonly string[],
  attributes: Bounded["attributes"],
): [field: string, fault: string] | undefined {
  const field = "metadata.attributes";
  if (names.length > MAX_ATTRIBUTES) {
    return [field, `there are ${names.length}, and may be ${MAX_ATTRIBUTES}`];
  }
  const size = names.reduce(
    (sum, name) => sum + new TextEncoder().encode(name).length + (attributes[name]?.length ?? 0),
    0,
  );
  if (size > MAX_ATTRIBUTE_BYTES) {
    return [field, `${size} bytes in all, and may have ${MAX_ATTRIBUTE_BYTES}`];
  }
  const wrong = names.find((name) => !isName(name));
  return wrong === undefined ? undefined : [`${field}.${wrong}`, "is not a name"];
}
