/** What holds of an action however its schema is written: its name, the fields of its result. */

import { isName, isReserved } from "../wire/name.js";

/** @throws TypeError for what is no name of an action. */
export function checkName(name: unknown): asserts name is string {
  if (typeof name !== "string" || !isName(name)) {
    throw new TypeError(
      `"${String(name)}" is not a name for an action: write letters, digits, _, # and -, 255 at most`,
    );
  }
  if (isReserved(name)) {
    throw new TypeError(`action "${name}": names that begin with __ are the protocol's own`);
  }
}

/** @throws TypeError for what is no text. */
export function checkDescription(description: unknown): void {
  if (description !== undefined && typeof description !== "string") {
    throw new TypeError(`the description is a text, not ${typeof description}`);
  }
}

/** @throws TypeError where the result document could not be made. */
export function checkFields(
  map: Readonly<Record<string, string>> | undefined,
  ports: ReadonlyMap<string, unknown>,
): void {
  const fields = Object.entries(map ?? {});
  for (const [port, field] of fields) {
    if (!ports.has(port)) {
      throw new TypeError(`outputToJsonField: there is no output "${port}"`);
    }
    if (field === "$" && fields.length > 1) {
      throw new TypeError(
        `outputToJsonField: "$" makes "${port}" all of the result; it stands alone`,
      );
    }
    if (fields.some(([other, same]) => other !== port && same === field)) {
      throw new TypeError(`outputToJsonField: two outputs are to be the field "${field}"`);
    }
  }
}
