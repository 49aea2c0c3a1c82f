/** Values that came, as their types want them. */

import type * as z from "zod";

type Issue = z.core.$ZodIssue;

/**
 * Parses a value that was read from JSON. A whole number beyond 2^53 came as a bigint: it
 * stays one where the type takes it, and is a number where the type says number.
 *
 * @param value - Read for this alone: numbers are put into it.
 */
export async function fit<T extends z.ZodType>(
  type: T,
  value: unknown,
): Promise<z.ZodSafeParseResult<z.output<T>>> {
  let given = value;
  for (;;) {
    const parsed = await type.safeParseAsync(given);
    const places = parsed.success ? [] : parsed.error.issues.flatMap((it) => numbersOf(it, []));
    const longs = places.filter((place) => typeof at(given, place) === "bigint");
    // Each time there are fewer of them.
    if (longs.length === 0) {
      return parsed;
    }
    given = longs.reduce(withNumber, given);
  }
}

/** Where a number was wanted, the options of a union too. */
function numbersOf(issue: Issue, before: readonly PropertyKey[]): PropertyKey[][] {
  const place = [...before, ...issue.path];
  if (issue.code === "invalid_union") {
    return issue.errors.flat().flatMap((inner) => numbersOf(inner, place));
  }
  return issue.code === "invalid_type" && issue.expected === "number" ? [place] : [];
}

function at(value: unknown, place: readonly PropertyKey[]): unknown {
  return place.reduce<unknown>(
    (inner, key) =>
      typeof inner === "object" && inner !== null && Object.hasOwn(inner, key)
        ? inner[key as keyof typeof inner]
        : undefined,
    value,
  );
}

function withNumber(value: unknown, place: readonly PropertyKey[]): unknown {
  const long = at(value, place);
  const key = place.at(-1);
  if (typeof long !== "bigint") {
    // Two options of a union want it: it is one already.
    return value;
  }
  if (key === undefined) {
    return Number(long);
  }
  // A plain assignment to `__proto__` would set the prototype.
  Object.defineProperty(at(value, place.slice(0, -1)), key, {
    value: Number(long),
    configurable: true,
    enumerable: true,
    writable: true,
  });
  return value;
}
