/** A program that a test runs, and what it says. */

import { type ChildProcess, spawn } from "node:child_process";
import { atRoot } from "./server.js";

export interface Program {
  readonly process: ChildProcess;
  /** Everything it said so far, on both streams. */
  said(): string;
  /** Waits until it says something; fails where it ends before. */
  says(wanted: RegExp): Promise<RegExpExecArray>;
  /** Waits for its end; answers the exit code. */
  readonly ended: Promise<number | null>;
}

/** Runs a Node program at the repository's root. */
export function runNode(args: string[], environment: Record<string, string> = {}): Program {
  const child = spawn(process.execPath, args, {
    cwd: atRoot(""),
    env: { ...process.env, NODE_OPTIONS: "", NODE_TEST_CONTEXT: "", ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  const listeners = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8");
    stream.on("data", (text: string) => {
      said += text;
      for (const listener of listeners) {
        listener();
      }
    });
  }
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  return {
    process: child,
    said: () => said,
    ended,
    says: (wanted) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const match = wanted.exec(said);
          if (match !== null) {
            listeners.delete(look);
            resolve(match);
          }
        };
        listeners.add(look);
        void ended.then((code) => reject(new Error(`it ended with ${code}, saying: ${said}`)));
        look();
      }),
  };
}
