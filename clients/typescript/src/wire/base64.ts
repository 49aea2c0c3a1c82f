/** Base64 as the wire has it: read in both alphabets, written one way. */

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/** How many bytes `String.fromCharCode` takes at once. */
const STRIDE = 0x6000;

/** Writes bytes as standard base64, padded. */
export function encodeBase64(bytes: Uint8Array): string {
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; at += STRIDE) {
    parts.push(btoa(String.fromCharCode(...bytes.subarray(at, at + STRIDE))));
  }
  return parts.join("");
}

/**
 * Reads base64, padded or not; `undefined` where the text is none.
 *
 * @param alphabet - `either`: standard or URL-safe, not mixed.
 */
export function decodeBase64(
  text: string,
  alphabet: "either" | "standard" = "either",
): Uint8Array<ArrayBuffer> | undefined {
  const plain =
    alphabet === "either" && /[-_]/.test(text) && !/[+/]/.test(text)
      ? text.replaceAll("-", "+").replaceAll("_", "/")
      : text;
  const match = /^([A-Za-z0-9+/]*)(={0,2})$/.exec(plain);
  const body = match?.[1];
  const padding = match?.[2];
  if (body === undefined || padding === undefined) {
    return undefined;
  }
  const rest = body.length % 4;
  if (rest === 1 || (padding !== "" && (body.length + padding.length) % 4 !== 0)) {
    return undefined;
  }
  // Bits beyond the last byte must be zero: what is read is written the same again.
  const last = rest === 0 ? 0 : ALPHABET.indexOf(body.at(-1) ?? "");
  if ((rest === 2 && (last & 15) !== 0) || (rest === 3 && (last & 3) !== 0)) {
    return undefined;
  }
  const binary = atob(body);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) {
    bytes[at] = binary.charCodeAt(at);
  }
  return bytes;
}
