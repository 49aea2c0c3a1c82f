/** What came of a model's calls: results, values, and the events on the way. */

import { create } from "@bufbuild/protobuf";
import { Decoder } from "../action/decoder.js";
import { readLog } from "../action/log.js";
import type { ActionSchema, PortSchema } from "../gen/a11/v1/action_pb.js";
import type {
  ExecuteActionsFromInteractionResponse,
  StreamActionsFromInteractionResponse,
} from "../gen/a11/v1/action_service_pb.js";
import type { NodeFragment } from "../gen/a11/v1/chunk_pb.js";
import { Backend, InteractionSchema } from "../gen/a11/v1/interaction_pb.js";
import { Chunk, OCTETS } from "../wire/chunk.js";
import { parseJson } from "../wire/json.js";
import { callStatus } from "../wire/status.js";
import type { BackendName, CallResult, ExecuteEvent, Result } from "./execute.js";

/** Knows what an action puts out; `undefined` where it does not. */
export type SchemaOf = (name: string) => Promise<ActionSchema | undefined>;

type Response = ExecuteActionsFromInteractionResponse;
type Ended = Omit<CallResult, "value" | "outputs">;

/** The fragment id of a port that is the whole result, and its name in a schema. */
const WHOLE = "_";
const WHOLE_FIELD = "$";

/** The result of a response. */
export async function resultOf(response: Response, schemaOf: SchemaOf): Promise<Result> {
  const interaction = response.interaction ?? create(InteractionSchema);
  const results = response.results.map(async (call): Promise<CallResult> => {
    if ((call.status?.code ?? 0) !== 0) {
      return { ...endedOf(call), value: undefined, outputs: {} };
    }
    const fragments = interaction.actionOutputs[call.id]?.fragments ?? [];
    return { ...endedOf(call), ...valuesOf(fragments, await schemaOf(call.name)) };
  });
  const backend = Backend[response.backend]?.toLowerCase() as BackendName | "unspecified";
  return {
    messages: response.messages.map(parseJson),
    interaction,
    results: await Promise.all(results),
    backend: backend === "unspecified" ? undefined : backend,
  };
}

function endedOf(call: Response["results"][number]): Ended {
  return { id: call.id, name: call.name, status: callStatus(call.status), log: call.log };
}

/** What a call put out, and the value that it stands for. */
function valuesOf(
  fragments: readonly NodeFragment[],
  schema: ActionSchema | undefined,
): Pick<CallResult, "value" | "outputs"> {
  const fields = new Map<string, NodeFragment[]>();
  for (const fragment of fragments.filter(isHere)) {
    const parts = fields.get(fragment.id);
    if (parts === undefined) {
      fields.set(fragment.id, [fragment]);
    } else {
      parts.push(fragment);
    }
  }
  if (schema === undefined) {
    // Run by a peer that a config named, or gone since: what is there speaks for itself.
    const outputs = Object.fromEntries(
      [...fields].map(([field, parts]) => [field, fieldOf(parts, isUnary(parts))]),
    );
    return { outputs, value: fields.size > 1 ? outputs : Object.values(outputs)[0] };
  }
  const mapped = schema.outputs.filter((port) => fieldName(schema, port) !== undefined);
  const values = mapped.map((port) => {
    const parts = fields.get(fieldName(schema, port) ?? "") ?? [];
    return [port.name, fieldOf(parts, port.unary)] as const;
  });
  const [only] = mapped;
  const isWhole = only !== undefined && fieldName(schema, only) === WHOLE;
  const outputs = Object.fromEntries(values);
  return { outputs, value: schema.outputs.length > 1 && !isWhole ? outputs : values[0]?.[1] };
}

/** The id of the fragments that have a port's values; `undefined` where it is dropped. */
function fieldName(schema: ActionSchema, { name }: PortSchema): string | undefined {
  const map = schema.outputToJsonField;
  const field = Object.keys(map).length === 0 ? name : map[name];
  return field === WHOLE_FIELD ? WHOLE : field;
}

/** A lone piece that is final is one value, as far as can be told without a schema. */
function isUnary(parts: readonly NodeFragment[]): boolean {
  return parts.length === 1 && parts[0]?.continued === false;
}

function fieldOf(parts: readonly NodeFragment[], unary: boolean): unknown {
  const decoder = new Decoder({ name: "", mediaType: "", unary });
  const values = parts.flatMap((part) => decoder.push(part) as unknown[]);
  return unary ? values[0] : values;
}

/** Reads the events of a round. */
export class Events {
  readonly #schemaOf: SchemaOf;
  readonly #decoders = new Map<string, Decoder>();
  /** Calls that began, and those that ended. */
  readonly #begun = new Set<string>();
  readonly #ended = new Set<string>();
  /** Calls that had begun when the round was asked for again. */
  #told: ReadonlySet<string> = new Set();

  constructor(schemaOf: SchemaOf) {
    this.#schemaOf = schemaOf;
  }

  /**
   * The round is asked for again: of a call that had begun only its end is told, since
   * what it may do again has been told, in part.
   */
  again(): void {
    this.#told = new Set(this.#begun);
    this.#decoders.clear();
  }

  /** The events of a message; none for one of a kind that is not known here. */
  async of({ event }: StreamActionsFromInteractionResponse): Promise<ExecuteEvent[]> {
    switch (event.case) {
      case "started": {
        const { id, name } = event.value;
        const isNews = !this.#begun.has(id);
        this.#begun.add(id);
        return isNews ? [{ type: "started", id, name }] : [];
      }
      case "log": {
        const { id, entry } = event.value;
        const isNews = entry !== undefined && !this.#told.has(id);
        return isNews ? [{ type: "narrated", id, log: readLog(entry) }] : [];
      }
      case "output":
        return this.#told.has(event.value.id)
          ? []
          : event.value.fragments.filter(isHere).flatMap((it) => this.#output(event.value.id, it));
      case "finished":
        return this.#over(endedOf(event.value));
      case "summary": {
        const result = await resultOf(event.value, this.#schemaOf);
        // A round that had ended when it was asked for again has no other events.
        const late = result.results.flatMap(({ value: _, outputs: __, ...ended }) =>
          this.#told.size > 0 ? this.#over(ended) : [],
        );
        return [...late, { type: "summary", result }];
      }
      case undefined:
        return [];
    }
  }

  #over(result: Ended): ExecuteEvent[] {
    const isNews = !this.#ended.has(result.id);
    this.#ended.add(result.id);
    return isNews ? [{ type: "ended", result }] : [];
  }

  #output(id: string, fragment: NodeFragment): ExecuteEvent[] {
    const key = `${id}/${fragment.id}`;
    const decoder =
      this.#decoders.get(key) ?? new Decoder({ name: fragment.id, mediaType: "", unary: false });
    this.#decoders.set(key, decoder);
    const field = fragment.id;
    return piecesOf(decoder, fragment).map((value) => ({ type: "produced", id, field, value }));
  }
}

/** Whether a fragment holds what it says: a call that refers to a node is ended by the service. */
function isHere({ payload }: NodeFragment): boolean {
  return payload.case !== "nodeRef";
}

/** The value of a fragment, in a list; the bytes, where it is only a part of one. */
function piecesOf(decoder: Decoder, fragment: NodeFragment): unknown[] {
  try {
    return decoder.push(fragment);
  } catch (error) {
    const { payload } = fragment;
    if (payload.case !== "chunk" || payload.value.body.case !== "data") {
      throw error;
    }
    return [Chunk.of(payload.value, OCTETS)];
  }
}
