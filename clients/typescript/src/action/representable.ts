/** Which zod types have a JSON form; of those that have none, where they stand and what to write. */

import type * as z from "zod";

/** The side of a type that travels: what is given to it, or what it makes of that. */
export type Side = "input" | "output";

/** What to write instead of a type that JSON has no form of. */
const INSTEAD: Readonly<Record<string, string>> = {
  date: "write z.iso.datetime(), a text",
  bigint: "write z.int(), or z.string() for more than 2^53",
  map: "write z.record(z.string(), …)",
  set: "write z.array(…)",
  file: "write bytes(…) as a port of its own",
  nan: "write z.number()",
  symbol: "write z.string() or z.enum([…])",
  function: "write what it would return",
  undefined: "write .optional() where a value may be left out",
  void: "write .optional() where a value may be left out",
  never: "leave it out: no value fits it",
  transform: "say what comes of it: .transform(…).pipe(z.string())",
};

/** A part of a type: its def, whose fields depend on its kind. */
interface Def {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** What is no type of zod 4. */
export function faultOfType(type: unknown): string | undefined {
  if (typeof type === "object" && type !== null && "_zod" in type) {
    return undefined;
  }
  return typeof type === "object" && type !== null && "_def" in type
    ? "is a type of zod 3; zod 4 is needed"
    : "is no zod type; write z.string(), z.int(), …";
}

/**
 * The first part of a type that has no JSON form, where it stands and what to write
 * instead; `undefined` where all have one.
 *
 * @param port - The name that the place begins with.
 * @param mark - What a part that is no JSON by design is called, such as `bytes`.
 */
export function faultOf(
  port: string,
  type: z.ZodType,
  side: Side,
  mark: (type: z.ZodType) => string | undefined,
): string | undefined {
  const seen = new Set<unknown>();
  const look = (part: unknown, path: string): string | undefined => {
    const at = `${side} "${port}${path}"`;
    const fault = faultOfType(part);
    if (fault !== undefined) {
      return `${at} ${fault}`;
    }
    if (seen.has(part)) {
      return undefined;
    }
    seen.add(part);
    const marked = mark(part as z.ZodType);
    if (marked !== undefined) {
      return `${at}: ${marked}(…) has no place inside another type; make it a port of its own, .optional() where it may be absent`;
    }
    const def = (part as z.ZodType)._zod.def as unknown as Def;
    const instead = def.type === "transform" && side === "input" ? undefined : INSTEAD[def.type];
    if (instead !== undefined) {
      return `${at}: z.${def.type}() has no JSON form; ${instead}`;
    }
    if (def.type === "custom") {
      return `${at}: z.custom() and z.instanceof() have no JSON form; write bytes(…) as a port of its own for bytes, else z.object({…})`;
    }
    if (def.type === "literal") {
      const odd = (def.values as unknown[]).find(
        (it) => it === undefined || typeof it === "bigint",
      );
      return (def.values as unknown[]).includes(odd) && odd !== null
        ? `${at}: z.literal(${String(odd)}) has no JSON form; write a text, a number, true, false or null`
        : undefined;
    }
    for (const [inner, where] of partsOf(def, side)) {
      const found = look(inner, `${path}${where}`);
      if (found !== undefined) {
        return found;
      }
    }
    return undefined;
  };
  return look(type, "");
}

/** The parts of a type, and where they stand in its values. */
function partsOf(def: Def, side: Side): [part: unknown, where: string][] {
  switch (def.type) {
    case "object": {
      const fields = Object.entries(def.shape as object).map(([name, field]): [unknown, string] => [
        field,
        `.${name}`,
      ]);
      return def.catchall === undefined || (def.catchall as z.ZodType)._zod.def.type === "never"
        ? fields
        : [...fields, [def.catchall, ".*"]];
    }
    case "array":
      return [[def.element, "[]"]];
    case "tuple": {
      const items = (def.items as unknown[]).map((item, at): [unknown, string] => [
        item,
        `[${at}]`,
      ]);
      return def.rest ? [...items, [def.rest, "[]"]] : items;
    }
    case "record":
      return [
        [def.keyType, ".*"],
        [def.valueType, ".*"],
      ];
    case "union":
      return (def.options as unknown[]).map((option) => [option, ""]);
    case "intersection":
      return [
        [def.left, ""],
        [def.right, ""],
      ];
    case "pipe":
      return [[sideOf(def, side), ""]];
    case "lazy":
      return [[(def.getter as () => unknown)(), ""]];
    default:
      return def.innerType === undefined ? [] : [[def.innerType, ""]];
  }
}

/** The side of a pipe that travels. What a `preprocess` takes is what it hands on. */
function sideOf(def: Def, side: Side): unknown {
  const { in: first, out } = def as unknown as { in: z.ZodType; out: z.ZodType };
  return side === "output" || first._zod.def.type === "transform" ? out : first;
}
