/** Timestamps of chunks as text: RFC 3339, from year 1 to year 9999. */

import { create } from "@bufbuild/protobuf";
import { type Timestamp, TimestampSchema } from "@bufbuild/protobuf/wkt";
import { isInRange } from "../wire/chunk-limits.js";

const RFC_3339 =
  /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:[.,](\d{1,9}))?([Zz]|[+-]\d{2}:\d{2})$/;

/** Writes a timestamp with `+00:00` at its end; `undefined` out of range. */
export function writeTimestamp({ seconds, nanos }: Timestamp): string | undefined {
  if (!isInRange(Number(seconds), nanos)) {
    return undefined;
  }
  const moment = new Date(Number(seconds) * 1000).toISOString().slice(0, 19);
  if (nanos === 0) {
    return `${moment}+00:00`;
  }
  const digits = String(nanos).padStart(9, "0");
  return `${moment}.${nanos % 1000 === 0 ? digits.slice(0, 6) : digits}+00:00`;
}

/** Reads RFC 3339, with whatever offset; `undefined` for anything else. */
export function readTimestamp(text: string): Timestamp | undefined {
  const [, date, time, fraction = "", offset] = RFC_3339.exec(text) ?? [];
  if (date === undefined || time === undefined || offset === undefined) {
    return undefined;
  }
  const millis = Date.parse(`${date}T${time}Z`);
  const [hours = 0, minutes = 0] = offset.length > 1 ? offset.slice(1).split(":").map(Number) : [];
  const east = (hours * 3600 + minutes * 60) * (offset.startsWith("-") ? -1 : 1);
  const seconds = millis / 1000 - east;
  const nanos = Number(fraction.padEnd(9, "0"));
  // The calendar must have that day: the clock would count on into the next month.
  const isDay = !Number.isNaN(millis) && new Date(millis).toISOString().startsWith(date);
  if (!isDay || !isInRange(seconds, nanos)) {
    return undefined;
  }
  return create(TimestampSchema, { seconds: BigInt(seconds), nanos });
}
