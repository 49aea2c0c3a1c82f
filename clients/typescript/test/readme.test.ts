/** The README's code is code: every block is type checked, each as a file of its own. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { test } from "node:test";
import { promisify } from "node:util";
import { atRoot } from "./support/server.js";

const FOLDER = atRoot("clients/typescript/");

test("what the README calls is in the examples' configuration, or hosted by the README", async () => {
  const readme = await readFile(`${FOLDER}README.md`, "utf8");
  const config = await readFile(atRoot("examples/actions.toml"), "utf8");
  const names = [...readme.matchAll(/(?:client|page)\.(?:call|stream|start)(?:<.*?>)?\("(\w+)"/g)];
  assert.ok(names.length >= 5, `${names.length} calls`);
  const unknown = names
    .map(([, name]) => name)
    .filter((name) => !config.includes(`[actions.${name}]`) && !readme.includes(`name: "${name}"`));
  assert.deepEqual(unknown, []);
});

test("every block of the README type checks against the package as it is built", async () => {
  const readme = await readFile(`${FOLDER}README.md`, "utf8");
  const blocks = [...readme.matchAll(/```ts\n(.*?)```/gs)].map(([, code = ""]) => code);
  assert.ok(blocks.length >= 8, `${blocks.length} blocks`);
  const folder = await mkdtemp(`${FOLDER}test/readme-`);
  try {
    await Promise.all(
      blocks.map((code, place) => {
        const known = /\bconst client\b|\busing client\b/.test(code) || !code.includes("client.");
        const prelude = known ? "" : 'declare const client: import("a11-grpc").Client;\n';
        return writeFile(`${folder}/block-${place}.ts`, `${code}\n${prelude}export {};\n`);
      }),
    );
    const options = {
      extends: `${FOLDER}tsconfig.json`,
      compilerOptions: { noUnusedLocals: false },
      include: ["*.ts"],
    };
    await writeFile(`${folder}/tsconfig.json`, JSON.stringify(options));
    const tsc = `${FOLDER}node_modules/.bin/tsc`;
    const said = await promisify(execFile)(tsc, ["-p", folder]).then(
      () => "",
      (error: { stdout: string }) => error.stdout,
    );
    assert.equal(said, "");
  } finally {
    await rm(folder, { recursive: true });
  }
});
