/** What a fragment counts against its node's credit. */

import type { NodeFragment } from "../../gen/a11/v1/chunk_pb.js";

/** Counted for every fragment, so that empty ones are bounded too. */
export const FIXED_COST = 64;

/** What a fragment costs, in bytes: both sides count the same. */
export function cost(fragment: NodeFragment): number {
  if (fragment.payload.case !== "chunk") {
    return FIXED_COST;
  }
  const { body, metadata } = fragment.payload.value;
  let sum = FIXED_COST;
  if (body.case === "data") {
    sum += body.value.length;
  } else if (body.case === "ref") {
    sum += utf8Length(body.value);
  }
  if (metadata !== undefined) {
    for (const name in metadata.attributes) {
      sum += utf8Length(name) + (metadata.attributes[name]?.length ?? 0);
    }
  }
  return sum;
}

/** The length of a text in UTF-8. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit > 0x7f) {
      // Both halves of a pair have two bytes of the four.
      bytes += unit > 0x7ff && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1;
    }
  }
  return bytes;
}
