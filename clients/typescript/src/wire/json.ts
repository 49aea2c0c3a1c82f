/**
 * JSON without silent loss: whole numbers beyond 2^53 are bigints, and what JSON
 * cannot say (NaN, a lone surrogate, undefined) is an error instead of something
 * else.
 */

/** A JSON value; a whole number that a double cannot hold is a bigint. */
export type JsonValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | JsonValue[]
  | { [key: string]: JsonValue };

/** Deeper values are refused, as by the service. */
const MAX_DEPTH = 127;
/** Sixteen digits may be past 2^53. */
const LONG_NUMBER = /\d{16}/;

/**
 * Reads JSON text.
 *
 * @throws SyntaxError where it is no JSON, or nested deeper than 127.
 */
export function parseJson(text: string): JsonValue {
  // A lone surrogate can only come of an escape; deep nesting only of brackets.
  if (!LONG_NUMBER.test(text) && !text.includes("\\u") && text.length < MAX_DEPTH * 2) {
    return JSON.parse(text) as JsonValue;
  }
  if (!LONG_NUMBER.test(text)) {
    const value = JSON.parse(text) as JsonValue;
    checkValue(value, "", 0, SyntaxError);
    return value;
  }
  return new Reader(text).document();
}

/**
 * Writes a value as JSON text. Fields that are `undefined` are left out, a Date is its ISO
 * text, and an instance of a class its fields, or what its `toJSON` answers.
 *
 * @throws TypeError that names the place of what JSON cannot say, and what to write instead.
 */
export function stringifyJson(value: unknown): string {
  if (typeof value === "string") {
    checkText(value, "", TypeError);
    return JSON.stringify(value);
  }
  return isPlain(value, "", 0) ? JSON.stringify(value) : write(value, "", 0);
}

/**
 * The same for an object of a provider's SDK: what JSON has no form of is left out, as
 * `JSON.stringify` does.
 *
 * @throws TypeError that names the place of a number or a text that JSON cannot say.
 */
export function stringifyReply(value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch {
    // A bigint, which JSON has as any other number; or what this names better.
    return stringifyJson(value);
  }
  if (text === undefined) {
    throw new TypeError(`${typeof value} has no JSON form`);
  }
  // NaN becomes null, a lone surrogate its escape: look only where either may be.
  if (text.includes("null") || text.includes("\\ud")) {
    checkValue(value, "", 0, TypeError);
  }
  return text;
}

type Failure = new (message: string) => Error;

function checkValue(value: unknown, place: string, depth: number, Failure: Failure): void {
  if (depth > MAX_DEPTH) {
    throw new Failure(TOO_DEEP);
  }
  if (typeof value === "string") {
    checkText(value, place, Failure);
  } else if (typeof value === "number" && !Number.isFinite(value)) {
    throw new Failure(`${at(place)}${value} has no JSON form`);
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      checkValue(item, `${place}[${index}]`, depth + 1, Failure);
    }
  } else if (typeof value === "object" && value !== null && !("toJSON" in value)) {
    for (const [key, item] of Object.entries(value)) {
      checkText(key, place, Failure);
      checkValue(item, place === "" ? key : `${place}.${key}`, depth + 1, Failure);
    }
  }
}

function checkText(text: string, place: string, Failure: Failure): void {
  if (!text.isWellFormed()) {
    throw new Failure(`${at(place)}a text with half of a surrogate pair`);
  }
}

function at(place: string): string {
  return place === "" ? "" : `${place.replace(/^\./, "")}: `;
}

const TOO_DEEP = `nested deeper than ${MAX_DEPTH}, or a part of itself`;

/** What to write instead of an object that has no JSON form, by its tag. */
const INSTEAD: Readonly<Record<string, string>> = {
  Map: "; write Object.fromEntries(map)",
  Set: "; write [...set]",
  Promise: "; await it",
  Error: "; write its message",
  RegExp: "; write its source",
};

/** Whether an object is one whose fields do not say what it is; why, then. */
function oddness(value: object): string | undefined {
  const tag = Object.prototype.toString.call(value).slice(8, -1);
  const a = (name: string) => `${/^[AEIOU]/.test(name) ? "an" : "a"} ${name}`;
  if (
    ArrayBuffer.isView(value) ||
    tag.endsWith("ArrayBuffer") ||
    tag === "Blob" ||
    tag === "File"
  ) {
    return `${a(value.constructor?.name ?? tag)} is bytes, which have no JSON form; write base64`;
  }
  if (INSTEAD[tag] !== undefined) {
    return `${a(tag)} has no JSON form${INSTEAD[tag]}`;
  }
  if (tag === "WeakMap" || tag === "WeakSet" || Symbol.asyncIterator in value) {
    return `${a(tag)} has no JSON form`;
  }
  return Symbol.iterator in value && tag !== "String"
    ? `${a(tag)} has no JSON form; write [...it]`
    : undefined;
}

/**
 * Whether `JSON.stringify` writes a value as it is meant.
 *
 * @throws TypeError for what has no JSON form.
 */
function isPlain(value: unknown, place: string, depth: number): boolean {
  if (depth > MAX_DEPTH) {
    throw new TypeError(TOO_DEEP);
  }
  switch (typeof value) {
    case "string":
      checkText(value, place, TypeError);
      return true;
    case "boolean":
      return true;
    case "number":
      if (!Number.isFinite(value)) {
        throw new TypeError(`${at(place)}${value} has no JSON form`);
      }
      return !isLong(value);
    case "object":
      break;
    case "bigint":
      return false;
    default:
      throw new TypeError(`${at(place)}${typeof value} has no JSON form`);
  }
  if (value === null) {
    return true;
  }
  let plain = true;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      plain = isPlain(value[index], `${place}[${index}]`, depth + 1) && plain;
    }
    return plain;
  }
  if (value instanceof Date && Number.isNaN(value.getTime())) {
    throw new TypeError(`${at(place)}an invalid Date has no JSON form`);
  }
  const odd = oddness(value);
  if (odd !== undefined) {
    throw new TypeError(`${at(place)}${odd}`);
  }
  if ("toJSON" in value) {
    return value instanceof Date;
  }
  for (const [key, item] of Object.entries(value)) {
    if (item !== undefined) {
      checkText(key, place, TypeError);
      plain = isPlain(item, `${place}.${key}`, depth + 1) && plain;
    }
  }
  return plain;
}

/** Whether a number is whole and past 2^53: its digits as JSON has them are not all of it. */
function isLong(value: number): boolean {
  return Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21;
}

/** What `JSON.stringify` does, for bigints too. What it is given was looked at. */
function write(value: unknown, place: string, depth: number): string {
  if (typeof value === "bigint") {
    return value.toString();
  }
  if (typeof value === "number" && isLong(value)) {
    return BigInt(value).toString();
  }
  if (typeof value !== "object" || value === null) {
    return JSON.stringify(value);
  }
  if (Array.isArray(value)) {
    const items = value.map((item, index) => write(item, `${place}[${index}]`, depth + 1));
    return `[${items.join(",")}]`;
  }
  if ("toJSON" in value && typeof value.toJSON === "function") {
    const said: unknown = value.toJSON("");
    isPlain(said, place, depth + 1);
    return write(said, place, depth + 1);
  }
  const fields = Object.entries(value)
    .filter(([, item]) => item !== undefined)
    .map(([key, item]) => `${JSON.stringify(key)}:${write(item, `${place}.${key}`, depth + 1)}`);
  return `{${fields.join(",")}}`;
}

const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\]|\\.)*"/y;
const SPACE = /[ \t\n\r]*/y;

/** Reads a document whose numbers a double may not hold. */
class Reader {
  #at = 0;

  constructor(readonly text: string) {}

  document(): JsonValue {
    const value = this.#value(0);
    this.#space();
    if (this.#at !== this.text.length) {
      throw this.#fault();
    }
    return value;
  }

  #value(depth: number): JsonValue {
    if (depth > MAX_DEPTH) {
      throw new SyntaxError(`nested deeper than ${MAX_DEPTH}`);
    }
    this.#space();
    switch (this.text[this.#at]) {
      case "{":
        return this.#object(depth);
      case "[":
        return this.#array(depth);
      case '"':
        return this.#string();
      case "t":
        return this.#word("true", true);
      case "f":
        return this.#word("false", false);
      case "n":
        return this.#word("null", null);
      default:
        return this.#number();
    }
  }

  #object(depth: number): JsonValue {
    const object: { [key: string]: JsonValue } = {};
    this.#at++;
    this.#space();
    if (this.#take("}")) {
      return object;
    }
    do {
      this.#space();
      const key = this.#string();
      this.#space();
      this.#need(":");
      const value = this.#value(depth + 1);
      // A plain assignment to `__proto__` would set the prototype.
      Object.defineProperty(object, key, {
        value,
        configurable: true,
        enumerable: true,
        writable: true,
      });
      this.#space();
    } while (this.#take(","));
    this.#need("}");
    return object;
  }

  #array(depth: number): JsonValue {
    const items: JsonValue[] = [];
    this.#at++;
    this.#space();
    if (this.#take("]")) {
      return items;
    }
    do {
      items.push(this.#value(depth + 1));
      this.#space();
    } while (this.#take(","));
    this.#need("]");
    return items;
  }

  #string(): string {
    const text = JSON.parse(this.#match(STRING)[0]) as string;
    checkText(text, "", SyntaxError);
    return text;
  }

  #number(): number | bigint {
    const [text, fraction, exponent] = this.#match(NUMBER);
    const number = Number(text);
    if (!Number.isFinite(number)) {
      throw new SyntaxError(`the number ${text.slice(0, 40)} is too large`);
    }
    const whole = fraction === undefined && exponent === undefined;
    return whole && !Number.isSafeInteger(number) ? BigInt(text) : number;
  }

  #word<T extends JsonValue>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.#at)) {
      throw this.#fault();
    }
    this.#at += word.length;
    return value;
  }

  #space(): void {
    this.#match(SPACE);
  }

  #match(pattern: RegExp): RegExpExecArray {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.text);
    if (match === null) {
      throw this.#fault();
    }
    this.#at += match[0].length;
    return match;
  }

  #take(character: string): boolean {
    const taken = this.text[this.#at] === character;
    this.#at += taken ? 1 : 0;
    return taken;
  }

  #need(character: string): void {
    if (!this.#take(character)) {
      throw this.#fault();
    }
  }

  #fault(): SyntaxError {
    return new SyntaxError(`not JSON: unexpected text at ${this.#at}`);
  }
}
