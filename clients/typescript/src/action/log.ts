/** Narration: entries as a program says them, and as the wire has them. */

import { create } from "@bufbuild/protobuf";
import {
  LogLevel as Level,
  LogEntrySchema,
  type LogEntry as WireLogEntry,
} from "../gen/a11/v1/action_pb.js";
import { cut } from "../wire/cut.js";
import type { LogEntry, LogLevel } from "./options.js";

/** The longest text of an entry, in bytes. */
const MAX_TEXT_BYTES = 64 * 1024;

const LEVELS: Record<LogLevel, Level> = {
  debug: Level.DEBUG,
  info: Level.INFO,
  warn: Level.WARN,
  error: Level.ERROR,
};

/** How an entry is marked. */
export interface LogOptions {
  /** Default `info`. */
  readonly level?: LogLevel;
  /** Which part of the action speaks, a Name. */
  readonly channel?: string;
  /** For the operator alone; users are never shown it. */
  readonly internal?: boolean;
}

/** An entry for the wire. */
export function wireLog(said: string, options: LogOptions): WireLogEntry {
  // Plain JavaScript says other things, too, and a frame must be writable.
  return create(LogEntrySchema, {
    text: cut(String(said), MAX_TEXT_BYTES),
    level: LEVELS[options.level ?? "info"] ?? Level.INFO,
    channel: String(options.channel ?? "").toWellFormed(),
    internal: options.internal === true,
  });
}

/** An entry for the program. */
export function readLog({ text, level, channel, internal }: WireLogEntry): LogEntry {
  const levels = Object.keys(LEVELS) as LogLevel[];
  const known = levels.find((name) => LEVELS[name] === level) ?? "info";
  return { text, level: known, channel, internal };
}
