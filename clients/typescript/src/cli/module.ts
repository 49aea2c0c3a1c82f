/** Loads the registry that a module exports. */

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Registry } from "../action/registry.js";
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
  const exports = await load(isPath ? pathToFileURL(path).href : module);
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

async function load(specifier: string): Promise<Record<string, unknown>> {
  try {
    return (await import(specifier)) as Record<string, unknown>;
  } catch (error) {
    const { code, message } = error as Error & { code?: string };
    if (code === "ERR_MODULE_NOT_FOUND") {
      throw new UsageError(message);
    }
    // The module's own fault: its author wants to see where.
    const where = error instanceof Error ? error.stack : String(error);
    throw new UsageError(`${specifier} cannot be loaded: ${where}`);
  }
}

/** A registry, of another copy of this package too. */
function isRegistry(value: unknown): value is Registry {
  const like = value as Partial<Registry> | null;
  return (
    value instanceof Registry ||
    (typeof like === "object" && typeof like?.schemas === "function" && "onChange" in like)
  );
}
