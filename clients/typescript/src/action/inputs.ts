/** The inputs of a call that runs here: gathered, checked, and given to its handler. */

import type * as z from "zod";
import type { PortBinding } from "../gen/a11/v1/action_pb.js";
import type { NodeFragment } from "../gen/a11/v1/chunk_pb.js";
import type { CallFrame } from "../gen/a11/v1/peer_service_pb.js";
import { cost } from "../session/core/cost.js";
import { type Chunk, OCTETS } from "../wire/chunk.js";
import { isName } from "../wire/name.js";
import { invalid, isOk, ok, type ReasonName, type Status, StatusError } from "../wire/status.js";
import { Decoder } from "./decoder.js";
import { Inbox } from "./inbox.js";
import type { TypedPort } from "./ports.js";
import type { Entry } from "./registry.js";

/** The largest value of a unary input. */
const MAX_VALUE_BYTES = 64 << 20;

interface Stream {
  readonly port: TypedPort;
  readonly inbox: Inbox;
}

interface Value {
  readonly port: TypedPort;
  readonly decoder: Decoder;
  cost: number;
  given: [unknown] | [];
}

export class Inputs {
  readonly #entry: Entry;
  /** Node → the unary input that it carries, until it has ended. */
  readonly #open = new Map<string, Value>();
  readonly #values = new Map<string, Value>();
  readonly #streams = new Map<string, Stream>();
  /** The streams that the caller does not write. */
  readonly #empty: Stream[] = [];
  readonly #consume: (id: string, cost: number) => void;
  #failure: StatusError | undefined;
  /** Who waits for a value, or for all. */
  #waiting: (() => void)[] = [];

  /** @throws StatusError for bindings that are against the rules, or leave an input out. */
  constructor(
    entry: Entry,
    { inputs, onlyListedInputs }: Pick<CallFrame, "inputs" | "onlyListedInputs">,
    consume: (id: string, cost: number) => void,
  ) {
    this.#entry = entry;
    this.#consume = consume;
    const unlisted = onlyListedInputs ? "ended" : "own name";
    const bound = bind(entry.inputs, inputs, unlisted, "UNDECLARED_INPUT");
    const written = new Set(bound.values());
    for (const port of entry.inputs.values()) {
      if (!written.has(port)) {
        this.#leaveOut(port);
      }
    }
    for (const [id, port] of bound) {
      // Whoever reads by hand has the chunks, and their values by their media types.
      const isByHand = entry.input === "by hand";
      const shape = isByHand ? { ...port.port, mediaType: OCTETS } : port.port;
      if (port.port.unary) {
        const value: Value = { port, decoder: new Decoder(shape), cost: 0, given: [] };
        this.#open.set(id, value);
        this.#values.set(id, value);
      } else {
        const inbox = new Inbox(shape, (cost) => consume(id, cost));
        this.#streams.set(id, { port, inbox });
      }
    }
  }

  /** Why the call cannot go on, if it cannot. */
  get failure(): StatusError | undefined {
    return this.#failure;
  }

  /** Takes a piece of an input. */
  push(fragment: NodeFragment): void {
    const place = elsewhere(fragment);
    if (place !== undefined) {
      const message = `the value is ${place}, which is not held here`;
      this.fail(new StatusError("NOT_FOUND", message, { reason: "UNKNOWN_NODE" }));
      return;
    }
    const stream = this.#streams.get(fragment.id);
    if (stream !== undefined) {
      stream.inbox.push(fragment);
      return;
    }
    const value = this.#open.get(fragment.id);
    if (value === undefined) {
      this.#failUnlessKnown(fragment.id);
      return;
    }
    const price = cost(fragment);
    this.#consume(fragment.id, price);
    value.cost += price;
    if (value.cost > MAX_VALUE_BYTES) {
      const message = `input "${value.port.port.name}" has more than ${MAX_VALUE_BYTES} bytes`;
      this.fail(new StatusError("RESOURCE_EXHAUSTED", message, { reason: "NODE_FULL" }));
      return;
    }
    try {
      const given = value.decoder.push(fragment);
      value.given = given.length > 0 ? given : value.given;
    } catch (error) {
      const { message } = StatusError.from(error);
      this.fail(invalid(`input "${value.port.port.name}": ${message}`, "INVALID_INPUT"));
      return;
    }
    if (value.decoder.ended) {
      this.#open.delete(fragment.id);
      this.#wake();
    }
  }

  /** A node ended beside its final fragment. */
  close(id: string, how: Status): void {
    const stream = this.#streams.get(id);
    if (stream !== undefined) {
      stream.inbox.finish(how);
      return;
    }
    const value = this.#open.get(id);
    if (value === undefined) {
      this.#failUnlessKnown(id);
      return;
    }
    if (!isOk(how)) {
      this.fail(StatusError.of(how));
    } else if (value.cost > 0) {
      const message = `input "${value.port.port.name}" was closed before its end`;
      this.fail(new StatusError("FAILED_PRECONDITION", message, { reason: "NOT_FINAL" }));
    } else {
      this.#open.delete(id);
      this.#wake();
    }
  }

  /** The call is over: readers of streams get why. */
  fail(failure: StatusError): void {
    this.#failure ??= failure;
    for (const { inbox } of this.#streams.values()) {
      inbox.finish(failure.toStatus());
    }
    this.#wake();
  }

  /** The chunk of a unary input that is read by hand, once it is there; `undefined`: none. */
  async value(name: string): Promise<Chunk | undefined> {
    const [id, value] =
      [...this.#values].find(([, { port }]) => port.port.name === name) ?? ([] as const);
    await this.#until(() => id === undefined || !this.#open.has(id));
    return value?.given[0] as Chunk | undefined;
  }

  /** The chunks of a stream input that is read by hand. */
  stream(name: string): AsyncIterableIterator<unknown> {
    const all = [...this.#streams.values(), ...this.#empty];
    const inbox = all.find(({ port }) => port.port.name === name)?.inbox;
    if (inbox === undefined) {
      throw new TypeError(`no stream is bound to "${name}"`);
    }
    return inbox;
  }

  /**
   * The arguments, once every unary input is there.
   *
   * @throws StatusError INVALID_ARGUMENT that names the input which does not fit.
   */
  async arguments(): Promise<Record<string, unknown>> {
    await this.#until(() => this.#open.size === 0);
    const args: Record<string, unknown> = {};
    for (const { port, given } of this.#values.values()) {
      if (given.length > 0) {
        args[port.port.name] = given[0];
      } else if (port.port.required) {
        throw missing(port);
      }
    }
    for (const { port, inbox } of [...this.#streams.values(), ...this.#empty]) {
      args[port.port.name] = checked(port, inbox);
    }
    const type = this.#entry.input;
    if (type === "by hand") {
      return args;
    }
    const parsed = await type.safeParseAsync(args);
    if (!parsed.success) {
      throw invalid(describe("input", parsed.error), "INVALID_INPUT");
    }
    return parsed.data;
  }

  /** An input that the caller does not write has ended. */
  #leaveOut(port: TypedPort): void {
    if (port.port.required) {
      throw missing(port);
    }
    if (!port.port.unary) {
      const inbox = new Inbox(port.port, () => {});
      inbox.finish(ok());
      this.#empty.push({ port, inbox });
    }
  }

  /** Whoever writes a node that carries no input breaks its call. */
  #failUnlessKnown(id: string): void {
    if (!this.#values.has(id)) {
      const message = `the action has no port for node "${id.slice(0, 255)}"`;
      this.fail(invalid(message, "UNDECLARED_INPUT"));
    }
  }

  /** @throws StatusError where the call cannot go on. */
  async #until(holds: () => boolean): Promise<void> {
    while (this.#failure === undefined && !holds()) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    if (this.#failure !== undefined) {
      throw this.#failure;
    }
  }

  #wake(): void {
    for (const resume of this.#waiting.splice(0)) {
      resume();
    }
  }
}

/** The values of a stream input, each of which fits. */
async function* checked({ port, type }: TypedPort, inbox: Inbox): AsyncGenerator<unknown> {
  let place = 0;
  for await (const value of inbox) {
    const parsed = await type.safeParseAsync(value);
    if (!parsed.success) {
      throw invalid(describe(`input "${port.name}"[${place}]`, parsed.error), "INVALID_INPUT");
    }
    yield parsed.data;
    place++;
  }
}

/** What is wrong with a value, and where. */
export function describe(what: string, error: z.ZodError): string {
  const faults = error.issues.slice(0, 5).map(({ path, message }) => {
    const [port, ...rest] = path.map(String);
    const place = port === undefined ? what : `${what} "${[port, ...rest].join(".")}"`;
    return `${place}: ${message}`;
  });
  return faults.join("; ");
}

/** Where the value of a fragment is, if not in it; nobody goes there. */
function elsewhere({ payload }: NodeFragment): string | undefined {
  if (payload.case === "nodeRef") {
    return `in node "${payload.value.id.slice(0, 255)}"`;
  }
  const body = payload.case === "chunk" ? payload.value.body : undefined;
  return body?.case === "ref" ? `at "${body.value.slice(0, 255)}"` : undefined;
}

/** What a call ends with that lacks an input. */
export function missing({ port }: TypedPort): StatusError {
  return invalid(`required input "${port.name}" is missing`, "MISSING_INPUT");
}

/** What becomes of a port that a caller does not list: it has the node of its own name, or none. */
type Unlisted = "own name" | "ended";

/**
 * Node → port, for the ports of one direction.
 *
 * @param unknown - What a binding to no port is.
 */
export function bind(
  ports: ReadonlyMap<string, TypedPort>,
  bindings: readonly PortBinding[],
  unlisted: Unlisted,
  unknown: ReasonName,
): Map<string, TypedPort> {
  const nodes = new Map<string, string>();
  for (const { name, id } of bindings) {
    if (!ports.has(name)) {
      throw invalid(`a node is bound to "${name.slice(0, 255)}", which is no port`, unknown);
    }
    if (!isName(id)) {
      throw invalid(`the node bound to "${name}" has an id that is no name`);
    }
    nodes.set(name, id);
  }
  const bound = new Map<string, TypedPort>();
  for (const [name, port] of ports) {
    const id = nodes.get(name) ?? (unlisted === "own name" ? name : undefined);
    if (id === undefined) {
      continue;
    }
    const other = bound.get(id);
    if (other !== undefined) {
      throw invalid(`ports "${other.port.name}" and "${name}" have one node, "${id}"`);
    }
    bound.set(id, port);
  }
  return bound;
}
