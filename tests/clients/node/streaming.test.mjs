// Capability 4: streaming and not, the system message, models and effort, attachments, request headers.

import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { ask, checkChain, event, lastUser, modelServer, ofType, persisted, session, test, types } from "./help.mjs";

const provider = (server, more = {}) => ({ provider: { type: "openai", baseUrl: server.url, apiKey: "k", ...more }, model: "m" });
const system = (server) => server.requests.at(-1).body.messages[0].content;

test("every delta comes exactly once and in order", async ({ start }) => {
  const { session: chat, events } = await session(start(), { streaming: true });
  const text = await ask(chat, "stream 20000 chunks of 16 bytes");
  const deltas = ofType(events, "assistant.message_delta").map(({ data }) => data.deltaContent);
  assert.equal(deltas.join(""), text);
  assert.equal(text.length, 20_000 * 16);
  const numbers = deltas.join("").match(/\d+/g).map(Number);
  assert.deepEqual(numbers, Array.from({ length: 20_000 }, (_, n) => n + 1));
  checkChain(events);
});

test("without streaming there are no deltas, and the answer is the same", async ({ start }) => {
  const { session: chat, events } = await session(start(), { streaming: false });
  assert.equal(await ask(chat, "think aloud then stream 3 chunks"), "1 2 3 ");
  await event(events, "session.idle");
  assert.deepEqual(types(events).filter((type) => type.endsWith("_delta")), []);
});

test("deltas are never persisted", async ({ start }) => {
  const { session: chat, events } = await session(start(), { streaming: true });
  await ask(chat, "think aloud then stream 5 chunks");
  await event(events, "session.idle");
  assert.deepEqual(types(persisted(events)).filter((type) => type.endsWith("_delta")), []);
  assert.deepEqual(await chat.getEvents(), persisted(events));
});

test("usage is told as the model reports it", async ({ start }) => {
  const { session: chat, events } = await session(start(), { streaming: true });
  await ask(chat, "report usage 1000 in 50 out 900 cached");
  const usage = ofType(events, "assistant.usage")[0];
  assert.equal(usage.data.inputTokens, 1000);
  assert.equal(usage.data.outputTokens, 50);
  assert.equal(usage.data.cacheReadTokens, 900);
});

test("a model server's answer streams through, tokens and all", async ({ t, start }) => {
  const server = await modelServer(t, () => ({ content: "Hello from the server." }));
  const { session: chat, events } = await session(start(), { ...provider(server), streaming: true });
  assert.equal(await ask(chat, "hi"), "Hello from the server.");
  assert.equal(ofType(events, "assistant.message_delta").map(({ data }) => data.deltaContent).join(""), "Hello from the server.");
  assert.equal(ofType(events, "assistant.usage")[0].data.inputTokens, 11);
  const { body, headers } = server.requests[0];
  assert.equal(body.stream, true);
  assert.equal(body.model, "m");
  assert.equal(headers.authorization, "Bearer k");
  assert.equal(body.messages.filter(({ role }) => role === "system").length, 1);
});

test("a secret that comes in pieces is in none of them", async ({ t, start }) => {
  const server = await modelServer(t, () => ({ content: "The key is hunter2-and-more, not hunter3." }));
  const client = start();
  const { session: chat, events } = await session(client, { ...provider(server), streaming: true });
  await client.rpc.secrets.addFilterValues({ values: ["hunter2-and-more"] });
  const shown = "The key is ******, not hunter3.";
  assert.equal(await ask(chat, "hi"), shown);
  const deltas = ofType(events, "assistant.message_delta").map(({ data }) => data.deltaContent);
  assert.equal(deltas.join(""), shown);
  assert.ok(deltas.length > 3, "the rest streams as before");
  assert.ok(!JSON.stringify(events).includes("hunter2"));
});

test("a session that does not stream asks the model for no stream", async ({ t, start }) => {
  const server = await modelServer(t, () => ({ content: "In one piece." }));
  const { session: chat } = await session(start(), { ...provider(server), streaming: false });
  assert.equal(await ask(chat, "hi"), "In one piece.");
  assert.ok(!server.requests[0].body.stream);
});

test("the system message can be added to or replaced", async ({ t, start }) => {
  const server = await modelServer(t, () => ({ content: "ok" }));
  const client = start();
  const told = async (systemMessage) => {
    const { session: chat } = await session(client, { ...provider(server), systemMessage });
    await ask(chat, "hi");
    return system(server);
  };
  const plain = await told(undefined);
  const added = await told({ mode: "append", content: "Always rhyme." });
  assert.ok(added.length > plain.length && added.includes("Always rhyme."));
  assert.equal(await told({ mode: "replace", content: "You are a teapot." }), "You are a teapot.");
});

test("sections of the system message can be replaced, removed, added to and transformed", async ({ t, start }) => {
  const server = await modelServer(t, () => ({ content: "ok" }));
  const client = start();
  const seen = [];
  const { session: chat } = await session(client, {
    ...provider(server),
    systemMessage: {
      mode: "customize",
      sections: {
        tone: { action: "replace", content: "Speak like a pirate." },
        safety: { action: "append", content: "Never touch the rum." },
        guidelines: { action: (current) => {
          seen.push(current);
          return "Transformed guidelines.";
        } },
        code_change_rules: { action: "remove" },
      },
      content: "And a last word.",
    },
  });
  await ask(chat, "hi");
  const text = system(server);
  for (const part of ["Speak like a pirate.", "Never touch the rum.", "Transformed guidelines.", "And a last word."]) {
    assert.ok(text.includes(part), part);
  }
  assert.equal(seen.length, 1);
  assert.equal(typeof seen[0], "string");
});

test("the model can be switched, and the next call uses it", async ({ t, start }) => {
  const server = await modelServer(t, () => ({ content: "from the server" }));
  const providers = [{ name: "mine", type: "openai", baseUrl: server.url, apiKey: "k" }];
  const models = [{ id: "a", provider: "mine" }, { id: "b", provider: "mine" }];
  const { session: chat, events } = await session(start(), { providers, models, model: "mine/a" });
  await ask(chat, "hi");
  await chat.setModel("mine/b");
  await ask(chat, "hi again");
  assert.deepEqual(server.requests.map(({ body }) => body.model), ["a", "b"]);
  const change = ofType(events, "session.model_change").at(-1);
  assert.equal(change.data.newModel, "mine/b");
});

test("reasoning effort reaches the model", async ({ start }) => {
  const { session: chat } = await session(start(), { model: "rehearsal", reasoningEffort: "high" });
  assert.match(await ask(chat, "describe the request"), /reasoning effort high/);
});

test("files and directories that are attached are named in the prompt", async ({ t, start, work }) => {
  const server = await modelServer(t, () => ({ content: "ok" }));
  const { session: chat, events } = await session(start(), provider(server));
  const file = join(work, "notes.txt");
  await writeFile(file, "a\nb\nc\n");
  await mkdir(join(work, "folder"));
  await ask(chat, { prompt: "look", attachments: [{ type: "file", path: file }, { type: "directory", path: join(work, "folder") }] });
  const text = lastUser(server.requests.at(-1).body);
  assert.match(text, /look/);
  assert.match(text, /<tagged_files>[\s\S]*notes\.txt[\s\S]*folder[\s\S]*<\/tagged_files>/);
  assert.equal(ofType(events, "user.message")[0].data.attachments.length, 2);
});

test("an image is sent to a model that can see", async ({ start }) => {
  const { session: chat } = await session(start());
  const data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const prompt = { prompt: "describe the request", attachments: [{ type: "blob", data, mimeType: "image/png" }] };
  assert.match(await ask(chat, prompt), /1 image,/);
});

test("headers of the provider and of a request go out with it", async ({ t, start }) => {
  const server = await modelServer(t, () => ({ content: "ok" }));
  const { session: chat } = await session(start(), provider(server, { headers: { "x-always": "yes" } }));
  await ask(chat, { prompt: "hi", requestHeaders: { "x-once": "this time" } });
  await ask(chat, "hi");
  assert.deepEqual(server.requests.map(({ headers }) => [headers["x-always"], headers["x-once"]]), [["yes", "this time"], ["yes", undefined]]);
});

test("a server that fails for a while is asked again", async ({ t, start }) => {
  const server = await modelServer(t, (body, request, response, count) => {
    if (count < 3) {
      response.writeHead(count === 1 ? 503 : 429, { "retry-after": "0" }).end("busy");
      return undefined;
    }
    return { content: "at last" };
  });
  const { session: chat } = await session(start(), provider(server));
  assert.equal(await ask(chat, "hi"), "at last");
  assert.equal(server.requests.length, 3);
});
