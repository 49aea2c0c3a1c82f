/** Recorded cases that stand beside the repository, where they are. */

import { existsSync, readFileSync } from "node:fs";
import { atRoot } from "./server.js";

/** A recorded file's cases; `undefined`, with a note, where they are not there. */
export function recorded<T>(file: string): T | undefined {
  const folders = [
    process.env.A11_CONFORMANCE,
    process.env.A11_SHARED && `${process.env.A11_SHARED}/conformance`,
    atRoot("../shared/conformance"),
    atRoot("../../shared/conformance"),
  ];
  const folder = folders.find((it) => it !== undefined && existsSync(`${it}/${file}`));
  if (folder === undefined) {
    console.log(`conformance: skipped, ${file} is not here`);
    return undefined;
  }
  return JSON.parse(readFileSync(`${folder}/${file}`, "utf8")) as T;
}
