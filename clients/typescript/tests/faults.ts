// Run by tests/slow/test_typescript.py through a proxy that breaks half of the calls; prints what was written.
import assert from "node:assert/strict";

import { Memoryhub, MemoryhubError } from "../src/index.js";

const retries = { attempts: 12, firstWaitMs: 2 };
const hub = new Memoryhub(process.env["URL"] ?? "", process.env["KEY"] ?? "", { agentId: "helper", userId: "bob", retries });
const done: string[] = [];
const failed: string[] = [];
for (let number = 0; number < 60; number += 1) {
  const content = `fact ${number} of a storm`;
  try {
    const memory = await hub.POST("/api/v1/memories", { body: { content, kind: "fact" } });
    if (number % 4) done.push(content);
    else await hub.DELETE("/api/v1/memories/{memory_id}", { params: { path: { memory_id: memory.id } } });
  } catch (error) {
    assert(error instanceof MemoryhubError);
    failed.push(content);
  }
}
let answer = "";
for await (const { event, data } of hub.chat({ message: "What does Bob play?" })) if (event === "delta") answer += data.text;
assert.equal(answer, "The cello.");
// It would name another place.
await assert.rejects(hub.DELETE("/api/v1/memories/{memory_id}", { params: { path: { memory_id: ".." } } }), TypeError);
console.log(JSON.stringify({ done, failed }));
