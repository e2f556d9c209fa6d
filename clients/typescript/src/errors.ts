/** What the API answered (`application/problem+json`), or that no answer came. */

export const IN_PROGRESS = "idempotency_in_progress";

/** Base of all errors of this client. `retryable`: the same call may succeed later. */
export class MemoryhubError extends Error {
  readonly retryable: boolean;

  constructor(message: string, options: { retryable: boolean; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.name = new.target.name;
    this.retryable = options.retryable;
  }
}

/** The server could not be reached, and has not seen the call. */
export class NotReached extends MemoryhubError {}

/**
 * The connection broke after the call was sent; the server may have carried it out.
 *
 * Not `retryable` for a change under `If-Match`: read the row to learn what became of it.
 */
export class AnswerLost extends MemoryhubError {}

export interface Problem {
  code?: string;
  title?: string;
  detail?: string;
  errors?: { field: string; code: string; message: string }[];
  retryable?: boolean;
  [member: string]: unknown;
}

/** The API refused a call. `code` is stable; `problem` is the answer's whole body. */
export class ApiError extends MemoryhubError {
  readonly code: string;
  readonly detail: string;

  constructor(
    readonly status: number,
    readonly problem: Problem,
    readonly retryAfterSeconds: number | null = null,
  ) {
    const code = problem.code ?? "unknown";
    const waits = [429, 502, 503, 504, 507].includes(status) || code === IN_PROGRESS;
    super(`${status} ${code}: ${problem.detail ?? ""}`, { retryable: problem.retryable ?? waits });
    this.code = code;
    this.detail = problem.detail ?? "";
  }
}

/** 400, 413 or 422: the request must be changed. */
export class InvalidRequest extends ApiError {}
/** 401: no key, or a key that is not valid. */
export class AuthenticationFailed extends ApiError {}
/** 403: the key lacks a scope, or may not touch this agent or user. */
export class Forbidden extends ApiError {}
/** 404: there is no such row, or the key may not see it. */
export class NotFound extends ApiError {}
/** 409: the state of the row does not allow it; `code` says why. */
export class Conflict extends ApiError {}
/** 412: the row has changed since the ETag in `If-Match` was read. */
export class VersionMismatch extends ApiError {}
/** 429: too many calls with this key. */
export class RateLimited extends ApiError {}
/** 5xx: the server, its database or its model failed. */
export class ServerError extends ApiError {}
/** 507: the disk is nearly full. `retryable`, but not repeated by the client: making room takes a person. */
export class StorageFull extends ServerError {}

const BY_STATUS: Record<number, typeof ApiError> = {
  400: InvalidRequest,
  401: AuthenticationFailed,
  403: Forbidden,
  404: NotFound,
  409: Conflict,
  412: VersionMismatch,
  413: InvalidRequest,
  422: InvalidRequest,
  429: RateLimited,
  507: StorageFull,
};

/** Returns the error for an answer; of a body that is no problem (a proxy's page), the status says all. */
export function errorFor(status: number, body: string, retryAfterSeconds: number | null): ApiError {
  const kind = BY_STATUS[status] ?? (status >= 500 ? ServerError : ApiError);
  return new kind(status, problemIn(body), retryAfterSeconds);
}

export function problemIn(body: string): Problem {
  try {
    const problem: unknown = JSON.parse(body);
    return typeof problem === "object" && problem !== null ? (problem as Problem) : {};
  } catch {
    return {};
  }
}
