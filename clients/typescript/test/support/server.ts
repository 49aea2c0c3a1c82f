/** A real service for a test, on a port of its own. */

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));

export interface Server {
  readonly address: string;
  readonly process: ChildProcess;
  stop(): Promise<void>;
}

/** Where the program is: `A11_SERVER`, else what cargo built. */
export function program(): string {
  const path = process.env.A11_SERVER ?? `${ROOT}target/debug/a11-grpc`;
  if (!existsSync(path)) {
    throw new Error(`no service to test against at ${path}: cargo build, or set A11_SERVER`);
  }
  return path;
}

/** Starts a service; `args` beside those that are always given. */
export function startServer(...args: string[]): Promise<Server> {
  return startServerAt("127.0.0.1:0", ...args);
}

/** Starts a service at an address. */
export async function startServerAt(listen: string, ...args: string[]): Promise<Server> {
  const child = spawn(program(), ["serve", "--listen", listen, ...args], {
    cwd: ROOT,
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const lines = createInterface({ input: child.stderr });
  const said: string[] = [];
  const address = await new Promise<string>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", () => reject(new Error(`the service ended: ${said.join("\n")}`)));
    lines.on("line", (line) => {
      said.push(line);
      const match = /listening on (\S+:\d+)/.exec(line);
      if (match?.[1] !== undefined) {
        resolve(match[1]);
      }
    });
  });
  return {
    address,
    process: child,
    stop: async () => {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/** A path at the repository's root. */
export function atRoot(path: string): string {
  return ROOT + path;
}
