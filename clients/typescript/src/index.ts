/** Client of a memoryhub server: every operation of the API by its path, typed from the API's own schema. */

import createClient, { type Client, type FetchResponse, type MaybeOptionalInit } from "openapi-fetch";
import type { HttpMethod, PathsWithMethod, RequiredKeysOf } from "openapi-typescript-helpers";

import { MemoryhubError } from "./errors.js";
import type { paths } from "./schema.js";
import { type Chat, type ChatEvent, events, StreamedAnswer } from "./stream.js";
import { TENANT } from "./tenant.js";
import { Attempts, DEFAULT_RETRIES, repeating, type RetryPolicy, wait } from "./transport.js";

export * from "./errors.js";
export type { components, operations, paths } from "./schema.js";
export type { Chat, ChatEvent, RetryPolicy };

/** Settings of a client. `agentId` and `userId` are used wherever a call names none; "" is the agent itself. */
export interface Settings {
  agentId?: string;
  userId?: string;
  retries?: Partial<RetryPolicy>;
  timeoutMs?: number;
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

// The API's paths with the agent optional, which the client fills in.
type WithoutAgent<T> = T extends { agent_id: infer A } ? Omit<T, "agent_id"> & { agent_id?: A } : T;
type ScopedQuery<Q> = RequiredKeysOf<Q> extends never ? { query?: Q } : { query: Q };
type ScopedParameters<T> = T extends { query: infer Q } ? Omit<T, "query"> & ScopedQuery<WithoutAgent<Q>> : T;
type ScopedContent<T> = { [K in keyof T]: WithoutAgent<T[K]> };
type ScopedBody<T> = T extends { content: infer C } ? { content: ScopedContent<C> } : T;
type ScopedOperation<T> = {
  [K in keyof T]: K extends "parameters" ? ScopedParameters<T[K]> : K extends "requestBody" ? ScopedBody<T[K]> : T[K];
};
type ScopedPath<T> = { [M in keyof T]: M extends HttpMethod ? ScopedOperation<T[M]> : T[M] };
type Scoped = { [P in keyof paths]: ScopedPath<paths[P]> };

type Rest<Init> = RequiredKeysOf<Init> extends never ? [Init?] : [Init];
type Data<T> = T extends Record<string | number, unknown>
  ? NonNullable<FetchResponse<T, object, `${string}/${string}`>["data"]> & { etag?: string }
  : never;
type Method<M extends HttpMethod> = <P extends PathsWithMethod<Scoped, M>, I extends MaybeOptionalInit<Scoped[P], M>>(
  path: P,
  ...init: Rest<I>
) => Promise<Data<Scoped[P][M]>>;
type Page<T> = T extends { results: (infer Row)[] } ? Row : never;
type ChatBody = Omit<WithoutAgent<NonNullable<paths["/api/v1/chat"]["post"]["requestBody"]>["content"]["application/json"]>, "stream">;

interface Options {
  params?: { path?: Record<string, unknown>; query?: Record<string, unknown>; header?: Record<string, unknown> };
  body?: Record<string, unknown>;
  signal?: AbortSignal;
}

const CHAT = "/api/v1/chat";
const CHAT_TIMEOUT_MS = 600_000;

/** Client of one memoryhub server. Answers are the bodies, objects with their `etag`; errors are MemoryhubErrors. */
export class Memoryhub {
  readonly GET = this.#method("get");
  readonly POST = this.#method("post");
  readonly PUT = this.#method("put");
  readonly PATCH = this.#method("patch");
  readonly DELETE = this.#method("delete");

  readonly #client: Client<Scoped>;
  readonly #baseUrl: string;
  readonly #headers: Record<string, string>;
  readonly #retries: RetryPolicy;
  readonly #fetch: (url: string, init: RequestInit) => Promise<Response>;

  constructor(
    baseUrl: string,
    apiKey: string,
    private readonly settings: Settings = {},
  ) {
    if (!/^https?:\/\//.test(baseUrl)) throw new TypeError(`The address "${baseUrl}" must begin with http:// or https://.`);
    if (!/^[!-~]+$/.test(apiKey)) {
      throw new TypeError("The API key must be the text that begins with mh_, without spaces. It is shown once.");
    }
    this.#baseUrl = baseUrl.replace(/\/+$/, "").replace(/\/api\/v1$/, "");
    this.#headers = { Authorization: `Bearer ${apiKey}` };
    this.#retries = { ...DEFAULT_RETRIES, ...settings.retries };
    this.#fetch = settings.fetch ?? ((url, init) => fetch(url, init));
    this.#client = createClient<Scoped>({ baseUrl: this.#baseUrl, headers: this.#headers });
  }

  /** Iterates over all rows of a list; `limit` is the size of a page. */
  async *pages<P extends PathsWithMethod<Scoped, "get">, I extends MaybeOptionalInit<Scoped[P], "get">>(
    path: P,
    ...init: Rest<I>
  ): AsyncGenerator<Page<Data<Scoped[P]["get"]>>> {
    const options = (init[0] ?? {}) as Options;
    let cursor: string | null = null;
    do {
      const query: Record<string, unknown> = { ...options.params?.query, ...(cursor === null ? {} : { cursor }) };
      const page = await this.#send("get", path, { ...options, params: { ...options.params, query } });
      const { results, next } = page as { results: Page<Data<Scoped[P]["get"]>>[]; next: string | null };
      yield* results;
      // Only the cursor is taken: the address is as the server sees itself, which a proxy may have changed.
      cursor = next && new URL(next, this.#baseUrl).searchParams.get("cursor");
    } while (cursor);
  }

  /** Stores a message, has a model answer it with what is remembered, and yields the answer while it is written. */
  async *chat(body: ChatBody, options: { signal?: AbortSignal; idempotencyKey?: string } = {}): AsyncGenerator<ChatEvent> {
    const signal = options.signal ?? new AbortController().signal;
    const key = options.idempotencyKey ?? crypto.randomUUID();
    const headers = new Headers({ ...this.#headers, "Content-Type": "application/json", "Idempotency-Key": key });
    const sent = JSON.stringify({ ...this.#whose(), ...body, stream: true });
    const attempts = new Attempts("POST", this.#baseUrl + CHAT, headers, this.#retries);
    const answer = new StreamedAnswer();
    while (!answer.isOver) {
      let pause: number;
      try {
        const limited = AbortSignal.any([signal, AbortSignal.timeout(CHAT_TIMEOUT_MS)]);
        const response = await this.#fetch(this.#baseUrl + CHAT, { method: "POST", headers, body: sent, signal: limited });
        const refused = response.ok ? null : attempts.afterAnswer(response.status, response.headers, await response.text());
        if (refused === null && response.body) {
          answer.begin();
          for await (const [event, data] of events(response.body)) {
            const taken = answer.taken(event, data);
            if (taken) yield taken;
          }
          if (answer.isOver) return;
          throw new TypeError("The stream ended before its last event.");
        }
        pause = refused ?? 0;
      } catch (failure) {
        if (signal.aborted || failure instanceof MemoryhubError) throw failure;
        pause = attempts.afterFailure(failure);
      }
      await wait(pause, signal);
    }
  }

  #method<M extends HttpMethod>(method: M): Method<M> {
    return (path, ...init) => this.#send(method, path as string, (init[0] ?? {}) as Options) as never;
  }

  async #send(method: HttpMethod, path: string, options: Options): Promise<unknown> {
    for (const segment of Object.values(options.params?.path ?? {})) {
      if (["", ".", ".."].includes(String(segment))) throw new TypeError(`"${segment}" is no id or name.`);
    }
    const place = TENANT[`${method} ${path}`];
    const body = place === "body" ? { ...this.#whose(options.body), ...options.body } : options.body;
    const query = place === "query" ? { ...this.#whose(), ...options.params?.query } : options.params?.query;
    const header = { ...(method === "post" ? { "Idempotency-Key": crypto.randomUUID() } : {}), ...options.params?.header };
    const timeout = this.settings.timeoutMs ?? (path === CHAT ? CHAT_TIMEOUT_MS : 60_000);
    const request = {
      ...options,
      body,
      params: { ...options.params, query, header },
      fetch: repeating(this.#fetch, this.#retries, timeout),
      parseAs: "text",
    };
    const { data, response } = await this.#client.request(method, path as never, ...([request] as [never]));
    return parsed(data as string | undefined, response);
  }

  #whose(body: Record<string, unknown> = {}): Record<string, string> {
    const { agentId, userId } = this.settings;
    const user = userId === undefined || body["all_users"] ? {} : { user_id: userId };
    return { ...(agentId === undefined ? {} : { agent_id: agentId }), ...user };
  }
}

/** Returns an answer's body: an object with its `etag`, a text (lists of lines, exports), or undefined. */
function parsed(text: string | undefined, response: Response): unknown {
  if (!text || response.status === 204) return undefined;
  if (!response.headers.get("Content-Type")?.startsWith("application/json")) return text;
  const body: unknown = JSON.parse(text);
  const etag = response.headers.get("ETag");
  return etag && typeof body === "object" && body !== null && !Array.isArray(body) ? { ...body, etag } : body;
}
