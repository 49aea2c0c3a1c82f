/** How something ended: codes, reasons, and the one error that callers see. */

import { create } from "@bufbuild/protobuf";
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { ConnectError as RpcError } from "@connectrpc/connect";
import { Reason, type Status, StatusSchema } from "../gen/a11/v1/status_pb.js";
import { cut } from "./cut.js";

export type { Status };
export { Reason };

/** The canonical codes by name. */
export const Code = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  OUT_OF_RANGE: 11,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  DATA_LOSS: 15,
  UNAUTHENTICATED: 16,
} as const;

/** A canonical code's name, such as `NOT_FOUND`. */
export type CodeName = keyof typeof Code;

/** A reason's name, such as `UNKNOWN_ACTION`; `UNSPECIFIED` where the code says all. */
export type ReasonName = keyof typeof Reason;

const CODE_NAMES = Object.keys(Code) as CodeName[];
const FAILURES = CODE_NAMES.slice(1).join(", ");

/** The name of a code; UNKNOWN for a number that is none. */
export function codeName(code: number): CodeName {
  return CODE_NAMES[code] ?? "UNKNOWN";
}

/** The name of a reason; UNSPECIFIED for one that is not known here. */
export function reasonName(reason: Reason): ReasonName {
  return (Reason[reason] as ReasonName | undefined) ?? "UNSPECIFIED";
}

/** The longest message that is sent, and how much of details goes with it, in bytes. */
const MAX_MESSAGE_BYTES = 4096;
const MAX_DETAILS_BYTES = 4096;
const ERROR_DOMAIN = "a11";
const ERROR_INFO = "google.rpc.ErrorInfo";

/** How something ended, as programs see it. */
export interface CallStatus {
  readonly code: CodeName;
  /** `UNSPECIFIED` where the code says all. */
  readonly reason: ReasonName;
  readonly message: string;
  /** Further facts, each one JSON value as text. */
  readonly details: readonly string[];
}

/** A failure as programs say it: a {@link StatusError}, or a status, of which the code will do. */
export type Failure = Pick<CallStatus, "code"> & Partial<CallStatus>;

/** A status of the wire, as programs see it; none is OK. */
export function callStatus(status: Status | undefined): CallStatus {
  const { code = 0, reason = Reason.UNSPECIFIED, message = "", details = [] } = status ?? {};
  return { code: codeName(code), reason: reasonName(reason), message, details };
}

/** A status that is sent or received. */
export function status(
  code: CodeName,
  message: string,
  reason: ReasonName = "UNSPECIFIED",
): Status {
  return create(StatusSchema, {
    code: Code[code],
    message: cut(message, MAX_MESSAGE_BYTES),
    reason: Reason[reason],
  });
}

/** The status of what went well. */
export function ok(): Status {
  return create(StatusSchema);
}

/** Whether it went well. */
export function isOk(status: Status | undefined): boolean {
  return status === undefined || status.code === 0;
}

/**
 * What every failure of this package is thrown as. Branch on {@link code} and
 * {@link reason}, never on the message.
 */
export class StatusError extends Error {
  override readonly name = "StatusError";
  /** The canonical code, such as `NOT_FOUND`. */
  readonly code: CodeName;
  /** Why, such as `UNKNOWN_ACTION`; `UNSPECIFIED` where the code says all. */
  readonly reason: ReasonName;
  /** Further facts, each one JSON value as text. */
  readonly details: readonly string[];

  /**
   * @param code - What a handler that throws this ends its call with.
   * @param message - For people; the model reads it.
   */
  constructor(
    code: CodeName,
    message: string,
    options: { reason?: ReasonName; details?: readonly string[]; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    if (!Object.hasOwn(Code, code) || code === "OK") {
      throw new TypeError(`${String(code)} is no code of a failure; there are: ${FAILURES}`);
    }
    const { reason = "UNSPECIFIED", details = [] } = options;
    if (!Object.hasOwn(Reason, reason)) {
      throw new TypeError(`${String(reason)} is no reason`);
    }
    if (!details.every((detail) => typeof detail === "string")) {
      throw new TypeError("details are texts, each one JSON value: JSON.stringify(fact)");
    }
    this.code = code;
    this.reason = reason;
    this.details = [...details];
  }

  /** The error of a status that is not OK. */
  static of(status: Status): StatusError {
    const { code, message, ...rest } = callStatus(status);
    return new StatusError(code, message, rest);
  }

  /**
   * The error of a failure.
   *
   * @param what - What failed, such as `rejected "x"`.
   * @throws StatusError INVALID_ARGUMENT that names it, for what is no failure.
   */
  static ofFailure(what: string, failure: Failure): StatusError {
    if (failure instanceof StatusError) {
      return failure;
    }
    const { code, message = "", ...rest } = (failure ?? {}) as Failure;
    try {
      return new StatusError(code, message, rest);
    } catch (error) {
      throw invalid(`${what}: ${(error as Error).message}`);
    }
  }

  /**
   * Whatever was thrown, as this error; `CANCELLED` for an abort.
   *
   * @param what - `abort`: the error is what a signal was aborted with, whatever it is.
   */
  static from(error: unknown, what?: "abort"): StatusError {
    if (error instanceof StatusError) {
      return error;
    }
    if (what === "abort") {
      return aborted(error);
    }
    if (error instanceof RpcError) {
      const code = isBroken(error) ? "UNAVAILABLE" : codeName(error.code);
      return new StatusError(code, error.rawMessage, {
        reason: reasonOf(error),
        cause: error.cause ?? error,
      });
    }
    if (isAbort(error)) {
      return aborted(error);
    }
    return new StatusError("UNKNOWN", textOf(error), { cause: error });
  }

  /** The status of this error, its message and details cut to what the wire takes. */
  toStatus(): Status {
    const sent = status(this.code, this.message, this.reason);
    let room = MAX_DETAILS_BYTES;
    for (const detail of this.details) {
      const bytes = new TextEncoder().encode(detail).length;
      if (bytes <= room) {
        room -= bytes;
        sent.details.push(detail.toWellFormed());
      }
    }
    return sent;
  }
}

/** What `connect` throws where the address is none, or nobody answers there. */
export class ConnectError extends StatusError {}

/** An error for something that is wrong with what the caller gave. */
export function invalid(message: string, reason: ReasonName = "INVALID_REQUEST"): StatusError {
  return new StatusError("INVALID_ARGUMENT", message, { reason });
}

/** What was thrown, in words: programs throw other things than errors. */
export function textOf(thrown: unknown): string {
  const message = (thrown as { message?: unknown } | null | undefined)?.message;
  if (typeof message === "string") {
    return message;
  }
  try {
    return typeof thrown === "object" ? (JSON.stringify(thrown) ?? "an object") : String(thrown);
  } catch {
    return "what cannot be written";
  }
}

function aborted(cause: unknown): StatusError {
  return new StatusError("CANCELLED", "the caller cancelled", { reason: "CANCELLED", cause });
}

function isAbort(error: unknown): boolean {
  return error instanceof Error && (error.name === "AbortError" || error.name === "TimeoutError");
}

/** What the transport says where a connection broke, and no status came. */
const BROKEN = /^http\/2 stream closed with|^protocol error: missing|^premature/;

/** Whether an error is the connection's, rather than the service's answer. */
function isBroken(error: RpcError): boolean {
  const { cause } = error;
  return BROKEN.test(error.rawMessage) || (cause instanceof Error && !isAbort(cause));
}

/** The reason in a gRPC error's `google.rpc.ErrorInfo`. */
function reasonOf(error: RpcError): ReasonName {
  for (const detail of error.details) {
    if (!("type" in detail) || detail.type !== ERROR_INFO || !("value" in detail)) {
      continue;
    }
    const fields: Record<number, string> = {};
    try {
      const reader = new BinaryReader(detail.value as Uint8Array);
      while (reader.pos < reader.len) {
        const [field, wireType] = reader.tag();
        if (field === 1 || field === 2) {
          fields[field] = reader.string();
        } else {
          reader.skip(wireType, field);
        }
      }
    } catch {
      continue;
    }
    const reason = fields[1] ?? "";
    if (fields[2] === ERROR_DOMAIN && reason in Reason) {
      return reason as ReasonName;
    }
  }
  return "UNSPECIFIED";
}
