/** A client of a service: calls its actions, and hosts some of its own. */

/// <reference lib="esnext.disposable" preserve="true" />

import { createClient, type Transport } from "@connectrpc/connect";
import type { Arguments, Call, Caller, CallOptions, StreamOptions } from "../action/options.js";
import type { Registry } from "../action/registry.js";
import type { ActionSchema } from "../gen/a11/v1/action_pb.js";
import { ActionService } from "../gen/a11/v1/action_service_pb.js";
import type { Dial } from "../session/connection.js";
import type { NewCall } from "../session/core/core.js";
import { Keeper } from "../session/keeper.js";
import type { Session } from "../session/session.js";
import { DEADLINE, SESSION, wireHeaders } from "../wire/headers.js";
import { type CallStatus, invalid, StatusError } from "../wire/status.js";
import { type Argument, argumentsOf, isLive, type Others } from "./arguments.js";
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
import { type NodeOptions, type NodeOwner, NodeWriter, readNode } from "./nodes.js";
import { runOneShot } from "./one-shot.js";
import { checkMetadata, checkOptions, EXECUTE_OPTIONS, STREAM_OPTIONS } from "./options.js";
import { askForEvents, askForResult, type RoundParts } from "./round.js";
import { RunningCall } from "./running-call.js";
import { Schemas } from "./schemas.js";
import { Patience, timeoutOf } from "./timeout.js";
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
  /** `always`: every call is one of the session. `needed`: only where it must be. */
  readonly sessionCalls: "always" | "needed";
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
  readonly #hosted: Hosted;
  #isClosed = false;

  /** @internal */
  constructor(given: Driver, options: ClientOptions) {
    const transport = guarded(given.transport, () => {
      if (this.#isClosed) {
        throw closed();
      }
    });
    const driver = { ...given, transport };
    this.#driver = driver;
    this.#schemas = new Schemas(transport);
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
    const call = await this.#start(name, args, options, "absent");
    return (await call.result()) as T;
  }

  /**
   * Calls an action and hands out the values of its streamed output as they come. Leaving
   * the loop early cancels the call.
   */
  async *stream<T = unknown>(
    name: string,
    args: Arguments = {},
    options: StreamOptions = {},
  ): AsyncGenerator<T, void, undefined> {
    checkOptions(options, STREAM_OPTIONS, "a call");
    const patience = new Patience(options);
    const port = await patience.wait(this.#streamOf(name, options.port));
    const call = await this.#start(name, args, { ...options, timeout: patience.left }, "absent");
    for await (const event of call) {
      if (event.type === "output" && event.port === port) {
        yield event.value as T;
      } else if (event.type === "finished" && event.error !== undefined) {
        throw event.error;
      }
    }
  }

  /**
   * Starts a call and answers it as it runs: its events, and its inputs that were not
   * given, to be written. Leaving the loop over its events early cancels it.
   */
  start(name: string, args: Arguments = {}, options: CallOptions = {}): Promise<Call> {
    return this.#start(name, args, options, "open");
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
   * Reads a node of a session, or a port of a run, from a place on, as it is written; attaches again after a
   * disconnect. The values are texts, JSON values, or {@link Chunk}s.
   */
  async *readNode(id: string, options: NodeOptions = {}): AsyncGenerator<unknown, void, undefined> {
    yield* readNode(this.#driver.transport, await this.#ownerOf(options), id, options);
  }

  /** Writes a node of a session, or an input of a run that was left open; attaches again after a disconnect. */
  async writeNode(id: string, options: Omit<NodeOptions, "offset"> = {}): Promise<NodeWriter> {
    if (!this.#driver.canWriteNodes) {
      throw new StatusError("UNIMPLEMENTED", "a browser cannot stream to a node", {
        reason: "UNSUPPORTED",
      });
    }
    const owner = await this.#ownerOf(options);
    return new NodeWriter(this.#driver.transport, owner, id, options.signal);
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

  async #start(
    name: string,
    args: Arguments,
    options: CallOptions,
    others: Others,
  ): Promise<RunningCall> {
    // A stream's port was chosen before.
    checkOptions(options, STREAM_OPTIONS, "a call");
    if (typeof name !== "string") {
      throw invalid(`an action's name is a text, not ${name === null ? "null" : typeof name}`);
    }
    if (this.#isClosed) {
      throw closed();
    }
    const patience = new Patience(options);
    const headers = wireHeaders(options.headers);
    const { schema, given } = await patience.wait(this.#fit(name, args, others));
    const session = this.#isOneShot(given, others)
      ? undefined
      : await patience.wait(this.#keeper.session());
    const timed = { ...options, timeout: patience.left };
    const written = others === "open" ? schema.inputs : given;
    const inputs = written.map(({ name }) => name);
    const call = new RunningCall({
      id: `call_${crypto.randomUUID().replaceAll("-", "")}`,
      schema,
      inputs,
      options: timed,
      onEnd: (how) => this.#schemas.judge(name, how),
    });
    if (session === undefined) {
      void runOneShot(this.#driver.transport, name, call, given, headers, timed);
    } else {
      const { [DEADLINE]: _, ...sent } = headers;
      // The time left says it, without a common clock: the deadline is no header.
      const { timeout: timeoutMs } = timed;
      const frame = { id: call.id, action: name, inputs, headers: sent, timeoutMs };
      this.#begin(session, frame, call, given);
    }
    return call;
  }

  /** The schema of an action, and the arguments that go with it, as the service has it now. */
  async #fit(name: string, args: Arguments, others: Others) {
    const isKept = this.#schemas.has(name);
    const schema = await this.#schemas.get(name);
    try {
      return { schema, given: argumentsOf(schema, args, others) };
    } catch (error) {
      if (!isKept) {
        throw error;
      }
    }
    // It may have changed since it was kept.
    this.#schemas.forget(name);
    const now = await this.#schemas.get(name);
    return { schema: now, given: argumentsOf(now, args, others) };
  }

  #isOneShot(given: readonly Argument[], others: Others): boolean {
    const needed = others === "open" || given.some(isLive);
    return this.#driver.sessionCalls === "needed" && !needed && this.sessionId === undefined;
  }

  #begin(session: Session, frame: NewCall, call: RunningCall, given: readonly Argument[]): void {
    const number = session.startCall(frame, call);
    call.begin({
      write: (fragment) => session.write(number, fragment),
      consume: (id, cost) => session.consume(number, id, cost),
      cancel: (why) => session.cancel(number, why),
    });
    void call.feed(given);
  }

  async #streamOf(name: string, port: string | undefined): Promise<string> {
    const schema = await this.#schemas.get(name);
    const streams = schema.outputs.filter(({ unary }) => !unary).map((output) => output.name);
    const [first, ...others] = port === undefined ? streams : streams.filter((it) => it === port);
    if (first === undefined) {
      throw invalid(`action "${name}" has no streamed output${port ? ` "${port}"` : ""}`);
    }
    if (others.length > 0) {
      throw invalid(`action "${name}" streams ${streams.join(", ")}: choose with \`port\``);
    }
    return first;
  }

  async #known(name: string): Promise<ActionSchema | undefined> {
    return this.#schemas.get(name).catch(() => undefined);
  }

  #round(reply: Reply, options: ExecuteOptions): RoundParts {
    checkOptions(options, EXECUTE_OPTIONS, "execute");
    checkMetadata(options.headers);
    return {
      transport: this.#driver.transport,
      request: requestOf(reply, options),
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
