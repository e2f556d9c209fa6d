/** A chat that comes while it is written, taken up again where its connection breaks. */

import { AnswerLost, ApiError, type Problem } from "./errors.js";
import type { components } from "./schema.js";

export type Chat = components["schemas"]["ChatOut"];

export type ChatEvent =
  | { event: "session"; data: { session_id: string; message_id: string } }
  | { event: "delta"; data: { text: string } }
  | { event: "done"; data: Chat };

/** Yields the events of a `text/event-stream`, each as its name and its data. */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<[string, unknown]> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const piece of body as unknown as AsyncIterable<Uint8Array>) {
    const blocks = (rest + decoder.decode(piece, { stream: true })).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const lines = block.split("\n");
      const values = (name: string) =>
        lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).replace(/^ /, ""));
      const data = values("data").join("\n");
      if (data) yield [values("event").at(-1) ?? "message", JSON.parse(data)];
    }
  }
}

/** The events of a streamed chat, over all attempts: a repeat sends the whole text again, and what was given is left out. */
export class StreamedAnswer {
  #given = "";
  #again = "";
  #hasBegun = false;
  isOver = false;

  begin(): void {
    this.#again = "";
  }

  /** Returns the event to give on for one that came, or null. Throws ApiError, AnswerLost. */
  taken(event: string, data: unknown): ChatEvent | null {
    switch (event) {
      case "delta": {
        this.#again += (data as { text: string }).text;
        const text = this.#again.slice(this.#given.length);
        const shared = Math.min(this.#again.length, this.#given.length);
        check(this.#again.slice(0, shared) === this.#given.slice(0, shared));
        this.#given += text;
        return text ? { event, data: { text } } : null;
      }
      case "session": {
        const hadBegun = this.#hasBegun;
        this.#hasBegun = true;
        return hadBegun ? null : { event, data: data as { session_id: string; message_id: string } };
      }
      case "error": {
        this.isOver = true;
        const problem = data as Problem & { status?: number };
        throw new ApiError(problem.status ?? 500, problem);
      }
      case "done":
        this.isOver = true;
        check(this.#again === this.#given);
        return { event, data: data as Chat };
      default:
        return null;
    }
  }
}

function check(isSameText: boolean): void {
  if (!isSameText) throw new AnswerLost("The answer was begun anew, in other words.", { retryable: false });
}
