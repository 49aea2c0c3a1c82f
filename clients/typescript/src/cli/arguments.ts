/** The command line: `a11-grpc host MODULE[#SYMBOL] --server URL [--name NAME]`. */

import { parseArgs } from "node:util";

export const HELP = `Usage: a11-grpc host MODULE[#SYMBOL] --server URL [--name NAME]

Publishes the actions of a module's registry to a service, until it is stopped.

  MODULE         an ES module: a path (./actions.mjs; ./actions.ts where Node reads TypeScript)
                 or a package's name
  #SYMBOL        the export that is the Registry; default REGISTRY, else the default export
  --server URL   http://HOST:PORT, https://…, or HOST:PORT; default: A11_SERVER_URL, from
                 the environment
  --name NAME    who hosts them, for people and logs; default: the module
  --help         this text
  --version      the package's version

On standard error: "hosting NAME" for each action that is served, "refused NAME: WHY" for
each that is not, and then "ready SESSION". SIGINT and SIGTERM end it.

Exit codes: 0 it was stopped; 2 the command line or the module is wrong; 3 the service
cannot be reached, or refused everything.
`;

/** What to host, and where. */
export interface HostCommand {
  readonly module: string;
  /** `undefined`: REGISTRY, or the default export. */
  readonly symbol: string | undefined;
  readonly server: string;
  readonly name: string;
}

/** A mistake in the command line or in the module: told without a stack trace. */
export class UsageError extends Error {}

/**
 * Reads the command line; `help` or `version` where that was asked for.
 *
 * @throws UsageError for one that is wrong.
 */
export function readCommand(
  argv: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): HostCommand | "help" | "version" {
  const { values, positionals } = parse(argv);
  const [command, target, ...rest] = positionals;
  if (values.help === true || command === "help" || (command === undefined && argv.length === 0)) {
    return "help";
  }
  if (values.version === true || command === "version") {
    return "version";
  }
  if (command !== "host") {
    throw new UsageError(`unknown command "${command ?? ""}"; the one there is: host`);
  }
  if (target === undefined || rest.length > 0) {
    throw new UsageError("host takes one module");
  }
  const server = values.server ?? environment.A11_SERVER_URL;
  if (server === undefined || server === "") {
    throw new UsageError("--server is missing, and A11_SERVER_URL is not set");
  }
  const at = target.lastIndexOf("#");
  const module = at < 0 ? target : target.slice(0, at);
  const symbol = at < 0 ? undefined : target.slice(at + 1);
  if (module === "" || symbol === "") {
    throw new UsageError(`"${target}" is not MODULE or MODULE#SYMBOL`);
  }
  return { module, symbol, server, name: values.name ?? module };
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: {
        server: { type: "string" },
        name: { type: "string" },
        help: { type: "boolean", short: "h" },
        version: { type: "boolean", short: "V" },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}
