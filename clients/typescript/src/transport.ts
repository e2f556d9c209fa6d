/** Sends a request as often as is safe. */

import { AnswerLost, errorFor, IN_PROGRESS, MemoryhubError, NotReached, problemIn } from "./errors.js";

/** Number of attempts at a call, and the milliseconds between them. A longer `Retry-After` ends the attempts. */
export interface RetryPolicy {
  attempts: number;
  firstWaitMs: number;
  longestWaitMs: number;
}

export const DEFAULT_RETRIES: RetryPolicy = { attempts: 5, firstWaitMs: 500, longestWaitMs: 30_000 };

type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Codes of failures before anything was sent, as Node.js names them. Browsers tell no causes. */
const UNSENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"]);

/**
 * The attempts at one call: decides after each outcome whether another follows.
 *
 * Repeated are reads, writes with an Idempotency-Key, and changes without a condition. A conditional change whose
 * answer was lost is not: its repeat would be refused by its own first success.
 */
export class Attempts {
  readonly #isRepeatable: boolean;
  #made = 0;
  #mayHaveHappened = false;

  constructor(
    private readonly method: string,
    private readonly url: string,
    headers: Headers,
    private readonly policy: RetryPolicy,
  ) {
    this.#isRepeatable = !headers.has("If-Match");
  }

  /** Returns the milliseconds to wait before the next attempt. Throws NotReached or AnswerLost where none follows. */
  afterFailure(failure: unknown): number {
    this.#made += 1;
    const codes = causes(failure);
    const isUnsent = codes.some((code) => UNSENT.has(code));
    this.#mayHaveHappened ||= !isUnsent;
    if ((isUnsent || this.#isRepeatable) && this.#made < this.policy.attempts) return this.#pause();
    const reason = codes.length > 0 ? ` (${[...new Set(codes)].join(", ")})` : ""; // fetch itself says "fetch failed"
    const text = `${this.method} ${new URL(this.url).pathname}: ${String(failure)}${reason}`;
    if (!this.#mayHaveHappened) throw new NotReached(text, { retryable: true, cause: failure });
    throw new AnswerLost(text, { retryable: this.#isRepeatable, cause: failure });
  }

  /** Returns the milliseconds to wait before the next attempt, null for an answer to keep. Throws ApiError. */
  afterAnswer(status: number, headers: Headers, body: string): number | null {
    if (status < 400) return null;
    this.#made += 1;
    if (status === 404 && this.method === "DELETE" && this.#mayHaveHappened) return null; // deleted by a lost attempt
    const problem = problemIn(body);
    const asked = retryAfterSeconds(headers);
    // A gateway's 502 or 504 has no problem: as with a broken connection, the server may have acted.
    const isGateway = [502, 503, 504].includes(status) && problem.code === undefined;
    this.#mayHaveHappened ||= isGateway;
    const waits =
      status === 429 ||
      problem.code === IN_PROGRESS ||
      (status === 503 && asked !== null && problem.retryable !== false) ||
      (isGateway && this.#isRepeatable);
    const pause = asked === null ? this.#pause() : asked * 1000;
    if (waits && this.#made < this.policy.attempts && pause <= this.policy.longestWaitMs) return pause;
    throw errorFor(status, body, asked);
  }

  #pause(): number {
    const pause = this.policy.firstWaitMs * 2 ** (this.#made - 1);
    return Math.min(pause, this.policy.longestWaitMs) * (0.5 + Math.random() / 2);
  }
}

function causes(failure: unknown): string[] {
  if (!(failure instanceof Error)) return [];
  const own = "code" in failure ? [String(failure.code)] : [];
  const inner = failure instanceof AggregateError ? failure.errors.flatMap(causes) : [];
  return [...own, ...inner, ...causes(failure.cause)];
}

/** Returns `Retry-After` (RFC 9110, 10.2.3), seconds or a date, in seconds; null where it is missing or neither. */
export function retryAfterSeconds(headers: Headers): number | null {
  const text = headers.get("Retry-After")?.trim() ?? "";
  if (/^\d+$/.test(text)) return Number(text);
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(0, (at - Date.now()) / 1000);
}

export function wait(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });
}

/** Returns a `fetch` that reads answers whole and repeats what is safe to repeat. Throws MemoryhubError. */
export function repeating(fetch: Fetch, policy: RetryPolicy, timeoutMs: number): (request: Request) => Promise<Response> {
  return async (request) => {
    const { method, url, headers, signal } = request;
    const attempts = new Attempts(method, url, headers, policy);
    const body = request.body ? await request.arrayBuffer() : null;
    for (;;) {
      let pause: number | null;
      try {
        const limited = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
        const response = await fetch(url, { method, headers, body, signal: limited });
        const text = await response.text();
        pause = attempts.afterAnswer(response.status, response.headers, text);
        // 404: deleted already, by an attempt whose answer was lost.
        const isEmpty = response.status === 204 || response.status === 404;
        const { status, headers: answered } = response;
        if (pause === null) return isEmpty ? new Response(null, { status: 204 }) : new Response(text, { status, headers: answered });
      } catch (failure) {
        if (signal.aborted || failure instanceof MemoryhubError) throw failure;
        pause = attempts.afterFailure(failure);
      }
      await wait(pause, signal);
    }
  };
}
