// Told against a real server by tests/slow/test_typescript.py: node story.js URL KEY
import assert from "node:assert/strict";

import { Memoryhub } from "../src/index.js";

const [url = "", key = ""] = process.argv.slice(2);
const hub = new Memoryhub(url, key, { agentId: "helper", userId: "ann" });

const memory = await hub.POST("/api/v1/memories", { body: { content: "Ann lives in Lisbon.", kind: "fact" } });
const found = await hub.POST("/api/v1/memories/search", { body: { query: "Where does Ann live?" } });
assert.equal(found.results[0]?.memory?.id, memory.id);
const path = { memory_id: memory.id };
await hub.PATCH("/api/v1/memories/{memory_id}", { params: { path }, body: { content: "Ann lives in Porto." } });
await hub.POST("/api/v1/memories/{memory_id}/archive", { params: { path }, body: {} });
