/** A client of a service: calls its actions, and hosts some of its own. */

/// <reference lib="esnext.disposable" preserve="true" />

import { createClient, type Transport } from "@connectrpc/connect";
import type { Arguments, Call, Caller, CallOptions, StreamOptions } from "../action/options.js";
import type { Registry } from "../action/registry.js";
import type { ActionSchema } from "../gen/a11/v1/action_pb.js";
import { ActionService } from "../gen/a11/v1/action_service_pb.js";
import type { Dial } from "../session/connection.js";
import { Keeper } from "../session/keeper.js";
import { SESSION } from "../wire/headers.js";
import { isName } from "../wire/name.js";
import { type CallStatus, invalid, StatusError } from "../wire/status.js";
import { Calls, type CallsParts } from "./calling.js";
import { Doubts } from "./doubts.js";
import {
  type BackendName,
  type ExecuteEvent,
  type ExecuteOptions,
  type Reply,
  type Result,
  requestOf,
} from "./execute.js";
import { Hosted, type OnRefused } from "./hosted.js";
import { Interactions } from "./interactions.js";
import {
  type NodeOptions,
  type NodeOwner,
  NodeWriter,
  readNode,
  type WriteNodeOptions,
} from "./nodes.js";
import {
  checkMetadata,
  checkOptions,
  EXECUTE_OPTIONS,
  READ_OPTIONS,
  WRITE_OPTIONS,
} from "./options.js";
import { askForEvents, askForResult, type RoundParts } from "./round.js";
import { Schemas } from "./schemas.js";
import { timeoutOf } from "./timeout.js";
import { type Tool, type ToolsOptions, toolsOf, toolsRequestOf } from "./tools.js";

/** How a client is made, whatever it is connected by. */
export interface ClientOptions {
  /** Who the client is, for people and logs. */
  readonly name?: string | undefined;
  /** Sent along with every RPC, such as an `authorization`. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** What it hosts from the start. */
  readonly registry?: Registry | undefined;
  /** Hears of an action that the service does not serve. Default: a warning on the console. */
  readonly onRefused?: OnRefused | undefined;
}

/** What a client is connected by. @internal */
export interface Driver {
  readonly url: string;
  readonly transport: Transport;
  readonly dial: Dial;
  readonly sessionCalls: CallsParts["sessionCalls"];
  readonly canWriteNodes: boolean;
  close(): void;
}

/**
 * A connection to a service. Made by `connect`; {@link close} ends it.
 *
 * The session behind it is opened when it is first needed, resumed after a broken
 * connection, and opened anew when it is lost.
 */
export class Client implements Caller {
  /** Conversations that the service keeps, and its conversions between providers. */
  readonly interactions: Interactions;
  readonly #driver: Driver;
  readonly #keeper: Keeper;
  readonly #schemas: Schemas;
  readonly #calls: Calls;
  readonly #doubts: Doubts;
  readonly #hosted: Hosted;
  #isClosed = false;

  /** @internal */
  constructor(given: Driver, options: ClientOptions) {
    const check = () => {
      if (this.#isClosed) {
        throw closed();
      }
    };
    const transport = guarded(given.transport, check);
    const driver = { ...given, transport };
    this.#driver = driver;
    this.#schemas = new Schemas(transport);
    this.#doubts = new Doubts(this.#schemas);
    this.#hosted = new Hosted(options.onRefused);
    this.interactions = new Interactions(transport);
    this.#keeper = new Keeper({
      dial: driver.dial,
      name: String(options.name ?? ""),
      hosted: () => this.#hosted.schemas(),
      host: (session, frame) => this.#hosted.run(session, frame, this),
      answered: (published, refused) => {
        published.forEach((name) => this.#schemas.forget(name));
        this.#hosted.answered(published, refused);
      },
    });
    this.#calls = new Calls({
      transport,
      keeper: this.#keeper,
      schemas: this.#schemas,
      sessionCalls: driver.sessionCalls,
      check,
    });
  }

  /** Where it is connected to. */
  get url(): string {
    return this.#driver.url;
  }

  /** The actions that the service does not serve for this client, by name, and why. */
  get refused(): ReadonlyMap<string, CallStatus> {
    return this.#hosted.refused;
  }

  /** The session's id as it is now: what `a11://SESSION` names. */
  get sessionId(): string | undefined {
    return this.#keeper.current?.id;
  }

  /** The session's id; the session is opened where there is none. */
  async openSession(): Promise<string> {
    return (await this.#keeper.session()).id;
  }

  /** Bytes that the session holds for both directions: bounded, whatever readers do. */
  get heldBytes(): number {
    return this.#keeper.current?.heldBytes ?? 0;
  }

  // Calling.

  /**
   * Calls an action and waits for its result: the one output's value, or an object of
   * the outputs; a stream output as a list, an optional output without value as
   * `undefined`.
   *
   * @typeParam T - What the result is taken for; it is not checked.
   * @param args - By input name. A stream input takes a list or an (async) iterable,
   * which is sent while the call runs.
   * @throws StatusError NOT_FOUND for an unknown action, INVALID_ARGUMENT for arguments
   * that do not fit, and whatever the call fails with.
   */
  async call<T = unknown>(
    name: string,
    args: Arguments = {},
    options: CallOptions = {},
  ): Promise<T> {
    const call = await this.#calls.start(name, args, options, "absent");
    return (await call.result()) as T;
  }

  /**
   * Calls an action and hands out the values of its streamed output as they come, or of the
   * output that `port` names. Leaving the loop early cancels the call.
   */
  async *stream<T = unknown>(
    name: string,
    args: Arguments = {},
    options: StreamOptions = {},
  ): AsyncGenerator<T, void, undefined> {
    yield* this.#calls.stream<T>(name, args, options);
  }

  /**
   * Starts a call and answers it as it runs: its events, and its inputs that were not
   * given, to be written. Leaving the loop over its events early cancels it.
   */
  start(name: string, args: Arguments = {}, options: CallOptions = {}): Promise<Call> {
    return this.#calls.start(name, args, options, "open");
  }

  /** The schemas of the service's actions, by name; all, or those that match a pattern. */
  actions(...patterns: string[]): Promise<ActionSchema[]> {
    return this.#schemas.list(patterns);
  }

  /**
   * The schema of one action, at most some seconds old.
   *
   * @throws StatusError NOT_FOUND (UNKNOWN_ACTION).
   */
  async schema(name: string): Promise<ActionSchema> {
    if (this.#isClosed) {
      throw closed();
    }
    return this.#schemas.get(name);
  }

  /** Whether the service answers. @throws StatusError where it does not. */
  async ping(): Promise<void> {
    try {
      await createClient(ActionService, this.#driver.transport).listActions({ pageSize: 1 });
    } catch (error) {
      throw StatusError.from(error);
    }
  }

  // Executing.

  /**
   * What goes into a provider's request as `tools`: the actions that the model may call.
   * {@link execute} takes the same `allow`.
   *
   * @throws StatusError INVALID_ARGUMENT for a pattern, a backend or a dialect that is
   * none; RESOURCE_EXHAUSTED for tools of more than 16 MiB together.
   */
  async tools(backend: BackendName, options: ToolsOptions = {}): Promise<Tool[]> {
    try {
      const request = toolsRequestOf(backend, options);
      const client = createClient(ActionService, this.#driver.transport);
      const { signal } = options;
      const headers = this.#sent(options.headers);
      const rpc = signal === undefined ? { headers } : { headers, signal };
      return toolsOf((await client.declareTools(request, rpc)).tools);
    } catch (error) {
      throw StatusError.from(error);
    }
  }

  /**
   * Runs the tool calls of a model's reply, or of an interaction, in parallel. Every call
   * has a result; one call's failure touches no other.
   *
   * A recorded round (`store`) is sent again by itself when the connection breaks, within
   * its timeout: nothing runs twice. Others fail with UNAVAILABLE then, and what became of
   * their calls is not known.
   *
   * @param reply - The provider's reply as it came (an object of its SDK, JSON text), an
   * interaction, or the JSON of one.
   * @throws StatusError for a request that is refused as a whole.
   */
  async execute(reply: Reply, options: ExecuteOptions = {}): Promise<Result> {
    return askForResult(this.#round(reply, options));
  }

  /**
   * The same, as events in the order they happen; the summary is the last. Leaving the loop
   * early cancels the calls. Where a recorded round is sent again, a call that had begun
   * tells no more than its end, and nothing is told twice.
   */
  async *executeStream(
    reply: Reply,
    options: ExecuteOptions = {},
  ): AsyncGenerator<ExecuteEvent, void, undefined> {
    yield* askForEvents(this.#round(reply, options));
  }

  // Nodes.

  /**
   * Reads a node of a session, or a port of a run, from a place on, as it is written; attaches
   * again after a disconnect. The values are texts, JSON values, or {@link Chunk}s.
   */
  async *readNode(id: string, options: NodeOptions = {}): AsyncGenerator<unknown, void, undefined> {
    checkOptions(options, READ_OPTIONS, "readNode");
    yield* readNode(this.#driver.transport, await this.#ownerOf(options), id, options);
  }

  /**
   * Writes a node of a session, or an input of a run that was left open; attaches again after
   * a disconnect.
   *
   * @throws StatusError INVALID_ARGUMENT for an id that is no name.
   */
  async writeNode(id: string, options: WriteNodeOptions = {}): Promise<NodeWriter> {
    checkOptions(options, WRITE_OPTIONS, "writeNode");
    if (!isName(id)) {
      throw invalid(`node "${id}" has an id that is no name`);
    }
    if (!this.#driver.canWriteNodes) {
      throw new StatusError("UNIMPLEMENTED", "a browser cannot stream to a node", {
        reason: "UNSUPPORTED",
      });
    }
    const owner = await this.#ownerOf(options);
    return new NodeWriter(this.#driver.transport, owner, id, options);
  }

  async #ownerOf({ session, run = "" }: NodeOptions): Promise<NodeOwner> {
    return { session: session ?? (run === "" ? await this.openSession() : ""), run };
  }

  // Hosting.

  /**
   * Hosts the actions of a registry, those that are added later too, until the client is
   * closed. Answers those that the service does not serve, by name, and why.
   */
  async host(registry: Registry): Promise<ReadonlyMap<string, CallStatus>> {
    if (typeof registry?.onChange !== "function") {
      throw invalid("host takes a Registry: new Registry().action(…)");
    }
    this.#hosted.add(registry, () => {
      this.#keeper.publishChanges().catch(() => {});
    });
    await this.#keeper.session();
    await this.#keeper.publishChanges();
    const names = registry.schemas().map(({ name }) => name);
    return new Map([...this.refused].filter(([name]) => names.includes(name)));
  }

  /** Ends the session, its calls with it, and lets go of the connection. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#hosted.clear();
    await this.#keeper.close();
    this.#driver.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #known(name: string): Promise<ActionSchema | undefined> {
    return this.#schemas.get(name).catch(() => undefined);
  }

  #round(reply: Reply, options: ExecuteOptions): RoundParts {
    checkOptions(options, EXECUTE_OPTIONS, "execute");
    checkMetadata(options.headers);
    const request = requestOf(reply, options);
    const configured = Object.keys(options.actionConfigs ?? {});
    // Apart: it is no matter of the round, which waits for nothing.
    void this.#doubts.look(request, configured, this.#hosted.schemas());
    return {
      transport: this.#driver.transport,
      request,
      timeout: timeoutOf(options.timeout),
      signal: options.signal,
      headers: () => this.#sent(options.headers),
      schemaOf: (name) => this.#known(name),
    };
  }

  /** What goes along with a request about a model's calls. */
  #sent(headers: ExecuteOptions["headers"]) {
    const { sessionId } = this;
    return { ...(sessionId === undefined ? {} : { [SESSION]: sessionId }), ...headers };
  }
}

/** A transport that is asked nothing more once `check` throws. */
function guarded(transport: Transport, check: () => void): Transport {
  return {
    unary: async (...args) => {
      check();
      return transport.unary(...args);
    },
    stream: async (...args) => {
      check();
      return transport.stream(...args);
    },
  };
}

function closed(): StatusError {
  return new StatusError("CANCELLED", "the client is closed", { reason: "CANCELLED" });
}
