/** Texts that are longer than the wire takes. */

const ENCODER = new TextEncoder();

/** A text of at most so many bytes, cut at a letter, with a notice. */
export function cut(text: string, most: number): string {
  const whole = text.toWellFormed();
  // A unit of UTF-16 has at most three bytes.
  const bytes = whole.length * 3 <= most ? 0 : ENCODER.encode(whole).length;
  if (bytes <= most) {
    return whole;
  }
  const notice = `… [cut, ${bytes} bytes in all]`;
  const room = new Uint8Array(most - ENCODER.encode(notice).length);
  return whole.slice(0, ENCODER.encodeInto(whole, room).read) + notice;
}
