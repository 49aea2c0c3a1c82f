/** Loads the registry that a module exports. */

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Registry } from "../action/registry.js";
import { textOf } from "../wire/status.js";
import { UsageError } from "./arguments.js";

/**
 * The registry of a module.
 *
 * @throws UsageError where there is no such module, or no registry in it.
 */
export async function loadRegistry(module: string, symbol: string | undefined): Promise<Registry> {
  const path = resolve(module);
  const isPath = existsSync(path);
  if (!isPath && /^[./]/.test(module)) {
    throw new UsageError(`there is no file ${module}`);
  }
  const exports = await load(isPath ? pathToFileURL(path).href : module, module);
  const name = symbol ?? (exports.REGISTRY === undefined ? "default" : "REGISTRY");
  const registry = exports[name];
  if (registry === undefined) {
    const what = symbol === undefined ? "neither REGISTRY nor a default" : symbol;
    throw new UsageError(`${module} exports ${symbol === undefined ? what : `no ${what}`}`);
  }
  if (!isRegistry(registry)) {
    throw new UsageError(`${name} of ${module} is no Registry of a11-grpc`);
  }
  return registry;
}

async function load(specifier: string, module: string): Promise<Record<string, unknown>> {
  try {
    return (await import(specifier)) as Record<string, unknown>;
  } catch (error) {
    const { code, message } = error as Error & { code?: string };
    if (code === "ERR_MODULE_NOT_FOUND") {
      throw new UsageError(message);
    }
    if (code === "ERR_UNKNOWN_FILE_EXTENSION" && /\.[cm]?tsx?"/.test(message)) {
      throw new UsageError(
        `${module} cannot be loaded: this Node does not read TypeScript; compile it, or run with a loader: NODE_OPTIONS="--import tsx" a11-grpc host …`,
      );
    }
    throw new UsageError(`${module} cannot be loaded: ${faultOf(error)}`);
  }
}

/** Where this package is. */
const PACKAGE = new URL("../", import.meta.url).href;

/** The module's own fault, and the places in it: its author wants to see where. */
function faultOf(error: unknown): string {
  if (!(error instanceof Error)) {
    return textOf(error);
  }
  const frames = (error.stack ?? "").split("\n").filter((line) => /^ +at /.test(line));
  const own = frames.filter((frame) => !frame.includes(PACKAGE) && !/\(?node:/.test(frame));
  // A syntax error has its place above its name.
  const [place = ""] = error instanceof SyntaxError ? (error.stack ?? "").split("\n") : [];
  const where = place.startsWith("file:") ? `\n    at ${place}` : "";
  return [`${error.name}: ${error.message}${where}`, ...own.slice(0, 3)].join("\n");
}

/** A registry, of another copy of this package too. */
function isRegistry(value: unknown): value is Registry {
  const like = value as Partial<Registry> | null;
  return (
    value instanceof Registry ||
    (typeof like === "object" && typeof like?.schemas === "function" && "onChange" in like)
  );
}
