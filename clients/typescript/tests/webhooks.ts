// Told by tests/slow/test_typescript.py what was delivered, as JSON in the first argument.
import assert from "node:assert/strict";

import { Webhook, WebhookVerificationError } from "standardwebhooks";

interface Delivery {
  secrets: string[];
  headers: Record<string, string>;
  body: string;
}

const { secrets, headers, body } = JSON.parse(process.argv[2] ?? "") as Delivery;
for (const secret of secrets) {
  assert.deepEqual(new Webhook(secret).verify(body, headers), JSON.parse(body));
}
const [secret = ""] = secrets;
const refuses = (data: string, given: Record<string, string>, by = secret): void => {
  assert.throws(() => new Webhook(by).verify(data, given), WebhookVerificationError);
};
refuses(`${body} `, headers);
refuses(body, { ...headers, "webhook-id": "msg_other" });
refuses(body, { ...headers, "webhook-timestamp": String(Number(headers["webhook-timestamp"]) - 3600) });
refuses(body, headers, `whsec_${Buffer.from("another secret of 24 byt").toString("base64")}`);
console.log("verified");
