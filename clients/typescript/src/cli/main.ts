#!/usr/bin/env node
/** The program `a11-grpc`: hosts a module's actions. */

import { version } from "../version.js";
import { HELP, type HostCommand, readCommand, UsageError } from "./arguments.js";

const OK = 0;
const WRONG_INPUT = 2;
const UNAVAILABLE = 3;

async function main(): Promise<number> {
  const command = readCommand(process.argv.slice(2), process.env);
  if (command === "help") {
    process.stdout.write(HELP);
    return OK;
  }
  if (command === "version") {
    process.stdout.write(`${version}\n`);
    return OK;
  }
  return await host(command);
}

async function host({ module, symbol, server, name }: HostCommand): Promise<number> {
  // Only now: a mistake in the command line is told without loading the rest.
  const { loadRegistry } = await import("./module.js");
  const { connect } = await import("../transport/node.js");
  const registry = await loadRegistry(module, symbol);
  const stopped = new Promise<void>((resolve) => {
    process.once("SIGINT", resolve);
    process.once("SIGTERM", resolve);
  });
  const connecting = connect(server, {
    name,
    registry,
    onRefused: (name, { code, message }) => say(`refused ${name}: ${code}: ${message}`),
  });
  const client = await Promise.race([connecting, stopped]);
  if (client === undefined) {
    // Nothing is hosted yet: there is nothing to end.
    process.exit(OK);
  }
  const { refused } = client;
  const served = registry.schemas().filter(({ name }) => !refused.has(name));
  for (const { name } of served) {
    say(`hosting ${name}`);
  }
  if (served.length === 0) {
    say(refused.size === 0 ? "the registry has no actions" : "no action is served");
    await client.close();
    return refused.size === 0 ? WRONG_INPUT : UNAVAILABLE;
  }
  say(`ready ${client.sessionId ?? ""}`);
  await stopped;
  await client.close();
  return OK;
}

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

try {
  process.exitCode = await main();
} catch (error) {
  if (error instanceof UsageError) {
    say(`a11-grpc: ${error.message}`);
    process.exitCode = WRONG_INPUT;
  } else if (error instanceof Error && error.name === "StatusError") {
    say(`a11-grpc: ${error.message}`);
    const { code } = error as Error & { code?: string };
    process.exitCode = code === "INVALID_ARGUMENT" ? WRONG_INPUT : UNAVAILABLE;
  } else {
    throw error;
  }
}
