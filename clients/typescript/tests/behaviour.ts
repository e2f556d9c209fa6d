// Run against a real server by tests/slow/test_typescript.py, which names it in the environment.
import assert from "node:assert/strict";
import { test } from "node:test";

import { AnswerLost, ApiError, InvalidRequest, Memoryhub, NotFound, NotReached, RateLimited, VersionMismatch } from "../src/index.js";

const url = process.env["URL"] ?? "";
const key = process.env["KEY"] ?? "";
const whose = { agentId: "helper", userId: "bob" };
const quick = { firstWaitMs: 1, longestWaitMs: 50 };
const hub = new Memoryhub(url, key, whose);
const problem = (status: number, code: string, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify({ code, detail: "…" }), {
    status,
    headers: { "Content-Type": "application/problem+json", ...headers },
  });

/** Returns a client whose first answers are replaced: by what is given, or by the server's own where it says "lose". */
function faulty(...faults: (Response | Error | "lose")[]): { hub: Memoryhub; sent: RequestInit[] } {
  const sent: RequestInit[] = [];
  const faultyFetch = async (to: string, init: RequestInit): Promise<Response> => {
    sent.push(init);
    const fault = faults.shift();
    if (fault instanceof Error) throw fault;
    if (fault instanceof Response) return fault;
    const answer = await fetch(to, init);
    if (fault === "lose") {
      await answer.text();
      throw new TypeError("terminated", { cause: Object.assign(new Error(), { code: "UND_ERR_SOCKET" }) });
    }
    return answer;
  };
  return { hub: new Memoryhub(url, key, { ...whose, retries: quick, fetch: faultyFetch }), sent };
}

test("an address or a key that can be none is refused before anything is sent", () => {
  for (const wrong of ["", "127.0.0.1:8000", "/api/v1"]) assert.throws(() => new Memoryhub(wrong, key), /must begin with http/);
  for (const wrong of ["", "mh_1 2", "mh_鍵"]) {
    assert.throws(() => new Memoryhub(url, wrong), (error: Error) => /API key/.test(error.message) && !error.message.includes("鍵"));
  }
});

test("lists are iterators over all pages", async () => {
  for (let number = 0; number < 5; number += 1) {
    await hub.POST("/api/v1/memories", { body: { content: `Keeps a boat with the number ${number}`, kind: "fact" } });
  }
  const contents: string[] = [];
  for await (const memory of hub.pages("/api/v1/memories", { params: { query: { limit: 2, kind: ["fact"] } } })) {
    contents.push(memory.content);
  }
  assert.equal(new Set(contents).size, 5);
});

test("a write whose answer was lost is repeated with its key, and happens once", async () => {
  const { hub: unlucky, sent } = faulty("lose", "lose");
  const memory = await unlucky.POST("/api/v1/memories", { body: { content: "Plays the cello", kind: "fact" } });
  assert.equal(sent.length, 3);
  const keys = sent.map((init) => new Headers(init.headers).get("Idempotency-Key"));
  assert.equal(new Set(keys).size, 1);
  const named: string[] = [];
  for await (const each of hub.pages("/api/v1/memories", { params: { query: { text: "cello" } } })) named.push(each.id);
  assert.deepEqual(named, [memory.id]);
});

test("Retry-After is honoured, and one that is too long is the caller's", async () => {
  const { hub: patient, sent } = faulty(problem(503, "busy", { "Retry-After": "0" }), problem(429, "throttled", { "Retry-After": "0" }));
  await patient.GET("/api/v1/memories/count");
  assert.equal(sent.length, 3);
  const { hub: refused } = faulty(problem(429, "throttled", { "Retry-After": "3600" }));
  await assert.rejects(refused.GET("/api/v1/memories/count"), (error) => error instanceof RateLimited && error.retryable);
});

test("problems are typed", async () => {
  const nowhere = { path: { memory_id: "00000000-0000-7000-8000-000000000000" } };
  await assert.rejects(hub.GET("/api/v1/memories/{memory_id}", { params: nowhere }), NotFound);
  const empty = { body: { content: "", kind: "fact" as const } };
  await assert.rejects(hub.POST("/api/v1/memories", empty), (error) => {
    assert(error instanceof InvalidRequest && error.problem.errors?.[0]?.field === "content");
    return !error.retryable;
  });
  await assert.rejects(new Memoryhub(url, "mh_wrong").GET("/api/v1/agents"), (error) => error instanceof ApiError && error.status === 401);
});

test("a change under a condition is not repeated where its answer was lost", async () => {
  const memory = await hub.POST("/api/v1/memories", { body: { content: "Rows on Sundays", kind: "fact" } });
  const change = (client: Memoryhub, etag: string) =>
    client.PATCH("/api/v1/memories/{memory_id}", {
      params: { path: { memory_id: memory.id }, header: { "If-Match": etag } },
      body: { content: "Rows on Mondays" },
    });
  const { hub: unlucky, sent } = faulty("lose");
  await assert.rejects(change(unlucky, memory.etag ?? ""), (error) => error instanceof AnswerLost && !error.retryable);
  assert.equal(sent.length, 1);
  await assert.rejects(change(hub, memory.etag ?? ""), VersionMismatch);
});

test("a server that cannot be reached has seen nothing", async () => {
  const away = new Memoryhub("http://127.0.0.1:49151", key, { ...whose, retries: { ...quick, attempts: 2 } });
  await assert.rejects(away.GET("/api/v1/agents"), (error) => error instanceof NotReached && error.retryable && /ECONNREFUSED/.test(error.message));
});

test("a chat comes as events, and goes on where its connection broke", async () => {
  for (const [place, faults] of [[], [new TypeError("terminated")]].entries()) {
    const { hub: chatting } = faulty(...faults);
    const names: string[] = [];
    let text = "";
    let answer = "";
    for await (const { event, data } of chatting.chat({ message: `What does Bob play? ${place}`, channel: "app" })) {
      if (names.at(-1) !== event) names.push(event);
      if (event === "delta") text += data.text;
      if (event === "done") answer = data.text;
    }
    assert.deepEqual(names, ["session", "delta", "done"]);
    assert(text.length > 0 && answer === text);
  }
});
