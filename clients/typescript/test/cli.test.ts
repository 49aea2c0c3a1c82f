/** The command: `a11-grpc host`, as it is built. */

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { readCommand, UsageError } from "../src/cli/arguments.js";
import { loadRegistry } from "../src/cli/module.js";
import { connect, version } from "../src/index.js";
import { runNode } from "./support/program.js";
import { atRoot, type Server, startServer } from "./support/server.js";

const MAIN = atRoot("clients/typescript/dist/cli/main.js");
let server: Server;
let folder: string;

before(async () => {
  assert.ok(existsSync(MAIN), "npm run build has not been run");
  server = await startServer();
  // Within the package, so that the modules find it by its name.
  folder = await mkdtemp(atRoot("clients/typescript/test/hosted-"));
});

after(async () => {
  await server.stop();
  await rm(folder, { recursive: true });
});

async function moduleOf(source: string): Promise<string> {
  const path = `${folder}/module-${Math.random().toString(36).slice(2)}.mjs`;
  await writeFile(path, `import { Registry } from "a11-grpc";\n${source}`);
  return path;
}

const host = (...args: string[]) => runNode([MAIN, "host", ...args]);

test("a module's registry is hosted until the program is stopped", async () => {
  const module = await moduleOf(`
    const registry = new Registry().action({ name: "cli_one" }, () => {});
    export { registry as REGISTRY };
    export const OTHER = new Registry().action({ name: "cli_two" }, () => {});`);
  const client = await connect(server.address);
  for (const [target, name] of [
    [module, "cli_one"],
    [`${module}#OTHER`, "cli_two"],
  ] as const) {
    const program = host(target, "--server", server.address);
    await program.says(/^ready \S+$/m);
    assert.match(program.said(), new RegExp(`^hosting ${name}\nready [-0-9a-f]+\n$`));
    assert.equal(await client.call(name), undefined);
    program.process.kill("SIGINT");
    assert.equal(await program.ended, 0, program.said());
    assert.deepEqual(await client.actions(name), []);
  }
  await client.close();
});

test("what is wrong is said without a stack trace, with its exit code", async () => {
  const check = async (args: string[], code: number, said: RegExp) => {
    const program = runNode([MAIN, ...args]);
    assert.equal(await program.ended, code, program.said());
    assert.match(program.said(), said);
    assert.doesNotMatch(program.said(), /\n +at /);
  };
  const empty = await moduleOf("export const REGISTRY = new Registry();");
  const none = await moduleOf("export const other = 5; console.log(Registry.name);");
  const one = await moduleOf("export default new Registry().action({ name: 'x' }, () => {});");
  const to = ["--server", server.address];
  await check(["--help"], 0, /A11_SERVER_URL[\s\S]*Exit codes/);
  await check(["--version"], 0, new RegExp(`^${version}\n$`));
  await check(["host", one], 2, /--server is missing/);
  await check(["host", none, ...to], 2, /neither REGISTRY nor a default/);
  await check(["host", `${none}#other`, ...to], 2, /no Registry/);
  await check(["host", empty, ...to], 2, /no actions/);
  await check(["host", one, "--server", "127.0.0.1:1"], 3, /cannot reach http:\/\/127.0.0.1:1/);
});

test("a module's own fault is told with its places, and no others", async () => {
  const broken = await moduleOf(
    'import * as z from "zod";\nexport const REGISTRY = new Registry().action({ name: "x", input: z.object({ d: z.date() }) }, () => {});',
  );
  const program = host(broken, "--server", server.address);
  assert.equal(await program.ended, 2, program.said());
  const [fault = "", ...places] = program.said().trim().split("\n");
  assert.match(fault, /cannot be loaded: TypeError: action "x": input "d": z\.date\(\)/);
  assert.equal(places.length, 1);
  assert.match(places[0] ?? "", /^ {4}at file:\/\/.*\/module-[a-z0-9]+\.mjs:3:\d+$/);
});

test("a module in TypeScript is hosted with a loader, and without one it is said how", async () => {
  const path = `${folder}/actions.ts`;
  await writeFile(
    path,
    `import { Registry } from "a11-grpc";
    enum Names { One = "cli_typed" }
    export const REGISTRY: Registry = new Registry().action({ name: Names.One }, () => {});`,
  );
  const bare = host(path, "--server", server.address);
  assert.equal(await bare.ended, 2, bare.said());
  assert.match(bare.said(), /cannot be loaded: /);
  assert.doesNotMatch(bare.said(), /\n +at .*node:/);
  if (Number(process.versions.node.split(".")[0]) < 22) {
    assert.match(bare.said(), /does not read TypeScript; .*NODE_OPTIONS="--import tsx"/);
  }
  const loader = { NODE_OPTIONS: `--import ${import.meta.resolve("tsx")}` };
  const loaded = runNode([MAIN, "host", path, "--server", server.address], loader);
  await loaded.says(/^hosting cli_typed\nready /m);
  loaded.process.kill("SIGTERM");
  assert.equal(await loaded.ended, 0);
});

test("a command line is read, or what is wrong with it is said", async () => {
  const check = (args: string[], expected: object | "help" | "version") =>
    assert.deepEqual(readCommand(args, {}), expected);
  const refuse = (args: string[], message: RegExp) =>
    assert.throws(() => readCommand(args, {}), { constructor: UsageError, message });
  check([], "help");
  check(["help"], "help");
  check(["--version"], "version");
  check(["-V"], "version");
  check(["host", "a.mjs#B", "--server", "x", "--name", "n"], {
    module: "a.mjs",
    symbol: "B",
    server: "x",
    name: "n",
  });
  assert.deepEqual(readCommand(["host", "a"], { A11_SERVER_URL: "u" }), {
    module: "a",
    symbol: undefined,
    server: "u",
    name: "a",
  });
  refuse(["serve"], /unknown command "serve"/);
  refuse(["host"], /one module/);
  refuse(["host", "a", "b", "--server", "x"], /one module/);
  refuse(["host", "a", "--servre", "x"], /--servre/);
  refuse(["host", "a#", "--server", "x"], /MODULE#SYMBOL/);
  await assert.rejects(loadRegistry("./nothing.mjs", undefined), /no file .\/nothing.mjs/);
  await assert.rejects(loadRegistry("no-such-package", undefined), /no-such-package/);
});

test("an action that is refused is named; where none is served the program says so", async () => {
  const module = await moduleOf(`
    export const REGISTRY = new Registry()
      .action({ name: "cli_taken", description: process.env.SAYS }, () => {});`);
  const first = host(module, "--server", server.address);
  await first.says(/^ready \S+$/m);
  const second = runNode([MAIN, "host", module, "--server", server.address], { SAYS: "other" });
  assert.equal(await second.ended, 3);
  assert.match(second.said(), /^refused cli_taken: ALREADY_EXISTS: .*\nno action is served\n$/);
  const both = await moduleOf(`
    export const REGISTRY = new Registry()
      .action({ name: "cli_taken", description: "other" }, () => {})
      .action({ name: "cli_free" }, () => {});`);
  const third = runNode([MAIN, "host", both], { A11_SERVER_URL: server.address });
  await third.says(/^ready \S+$/m);
  assert.match(third.said(), /^refused cli_taken: ALREADY_EXISTS: .*\nhosting cli_free\nready /);
  third.process.kill("SIGTERM");
  assert.equal(await third.ended, 0);
  first.process.kill("SIGTERM");
  assert.equal(await first.ended, 0);
});
