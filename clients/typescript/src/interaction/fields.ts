/** Reads the fields of a JSON object, and names the one that is malformed. */

import { decodeBase64 } from "../wire/base64.js";
import type { JsonValue } from "../wire/json.js";
import { invalid, type StatusError } from "../wire/status.js";

const MAX_INT64 = 2n ** 63n - 1n;
const MAX_UINT64 = 2n ** 64n - 1n;
const MAX_UINT32 = 2 ** 32 - 1;

/** An object of a document. A field that is null counts as absent. */
export class Fields {
  readonly #object: { readonly [key: string]: JsonValue };
  /** Where it is: empty for the document itself. */
  readonly #path: string;

  /** @throws StatusError INVALID_ARGUMENT for what is no object. */
  constructor(value: JsonValue, path: string) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw malformed(path === "" ? "interaction" : path, "is not an object");
    }
    this.#object = value;
    this.#path = path;
  }

  /** Where a field is. */
  at(name: string): string {
    return this.#path === "" ? name : `${this.#path}.${name}`;
  }

  /** Whether a field is there and null. */
  isNull(name: string): boolean {
    return this.#object[name] === null;
  }

  /** A field, whatever it is. */
  value(name: string): JsonValue | undefined {
    return Object.hasOwn(this.#object, name) ? (this.#object[name] ?? undefined) : undefined;
  }

  text(name: string): string | undefined {
    const value = this.value(name);
    if (value !== undefined && typeof value !== "string") {
      throw malformed(this.at(name), "is not a text");
    }
    return value;
  }

  flag(name: string): boolean | undefined {
    const value = this.value(name);
    if (value !== undefined && typeof value !== "boolean") {
      throw malformed(this.at(name), "is not true or false");
    }
    return value;
  }

  uint32(name: string): number | undefined {
    const value = this.value(name);
    if (value === undefined) {
      return undefined;
    }
    if (typeof value !== "number" || !Number.isInteger(value) || value < 0 || value > MAX_UINT32) {
      throw malformed(this.at(name), "is not a whole number of 32 bits");
    }
    return value;
  }

  /** A whole number that fits 64 bits; in decimal text too where it is signed. */
  int64(name: string): bigint | undefined {
    const value = this.value(name);
    const given = typeof value === "string" && /^[+-]?\d+$/.test(value) ? BigInt(value) : value;
    return this.#whole(name, given, -MAX_INT64 - 1n, MAX_INT64);
  }

  uint64(name: string): bigint | undefined {
    return this.#whole(name, this.value(name), 0n, MAX_UINT64);
  }

  /** Standard base64. */
  bytes(name: string): Uint8Array<ArrayBuffer> | undefined {
    const text = this.text(name);
    if (text === undefined) {
      return undefined;
    }
    const bytes = decodeBase64(text, "standard");
    if (bytes === undefined) {
      throw malformed(this.at(name), "not base64");
    }
    return bytes;
  }

  object(name: string): Fields | undefined {
    const value = this.value(name);
    return value === undefined ? undefined : new Fields(value, this.at(name));
  }

  list<T>(name: string, read: (item: JsonValue, path: string) => T): T[] {
    const value = this.value(name) ?? [];
    if (!Array.isArray(value)) {
      throw malformed(this.at(name), "is not a list");
    }
    return value.map((item, index) => read(item, `${this.at(name)}[${index}]`));
  }

  /** The entries of an object whose keys are data. */
  map<T>(name: string, read: (fields: Fields, key: string) => T): { [key: string]: T } {
    const fields = this.object(name);
    if (fields === undefined) {
      return {};
    }
    const entries = Object.keys(fields.#object).map((key) => [key, read(fields, key)]);
    return Object.fromEntries(entries) as { [key: string]: T };
  }

  bytesMap(name: string): { [key: string]: Uint8Array<ArrayBuffer> } {
    return this.map(name, (fields, key) => {
      const bytes = fields.bytes(key);
      if (bytes === undefined) {
        throw malformed(fields.at(key), "is not a text");
      }
      return bytes;
    });
  }

  #whole(
    name: string,
    value: JsonValue | undefined,
    least: bigint,
    most: bigint,
  ): bigint | undefined {
    if (value === undefined) {
      return undefined;
    }
    const isWhole =
      typeof value === "bigint" || (typeof value === "number" && Number.isSafeInteger(value));
    const whole = isWhole ? BigInt(value) : undefined;
    if (whole === undefined || whole < least || whole > most) {
      throw malformed(this.at(name), `is not a whole number from ${least} to ${most}`);
    }
    return whole;
  }
}

/** What is thrown for a field. */
export function malformed(path: string, fault: string): StatusError {
  return invalid(`${path}: ${fault}`);
}
