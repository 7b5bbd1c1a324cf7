// Model traffic that the app carries itself, and prompts as the Copilot CLI words them.

import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { CopilotRequestHandler, CopilotWebSocketHandler, defineTool } from "@github/copilot-sdk";

import { RuntimeConnection, approveAll, ask, environment, event, lodge, modelServer, resume, session, test, until } from "./help.mjs";

const json = (body, status = 200) =>
  new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json" } });
const completion = (content) =>
  json({ id: "c", object: "chat.completion", choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content } }] });

/** Answers requests to models without any server. */
class Handler extends CopilotRequestHandler {
  seen = [];
  hangs = false;
  aborted = false;
  async sendRequest(request, context) {
    const { pathname } = new URL(request.url);
    this.seen.push({ method: request.method, pathname, sessionId: context.sessionId });
    if (pathname === "/models") return json({ data: [{ id: "carried", name: "Carried" }] });
    const body = await request.json();
    const said = JSON.stringify(body.messages.at(-1).content);
    if (said.includes("explode")) return json({ error: { message: "the handler exploded" } }, 400);
    this.hangs = said.includes("hang");
    if (this.hangs)
      return new Promise((_, refuse) => context.signal.addEventListener("abort", () => {
        this.aborted = true;
        refuse(new Error("aborted"));
      }));
    return completion("carried by the app");
  }
}

test("an app carries the requests to models", async ({ start }) => {
  const handler = new Handler();
  const client = start({
    requestHandler: handler,
    gitHubToken: "any",
    env: environment({ COPILOT_API_URL: "http://models.invalid" }),
  });
  await client.start();
  assert.ok((await client.listModels()).some(({ id }) => id === "carried"));
  const { session: chat, events } = await session(client);
  assert.equal(await ask(chat, "hello"), "carried by the app");
  assert.ok(handler.seen.some(({ pathname, sessionId }) => pathname === "/chat/completions" && sessionId === chat.sessionId));
  await assert.rejects(() => ask(chat, "explode"), /the handler exploded/);
  await event(events, "session.error");
  await chat.send("hang");
  await until("the handler was asked", () => handler.hangs);
  await chat.abort();
  await until("the handler was told of the abort", () => handler.aborted);
});

const events = (text) => {
  const content = [{ type: "output_text", text }];
  const item = { id: "msg_1", type: "message", role: "assistant", content };
  return [
    { type: "response.created", response: { id: "r", status: "in_progress", output: [] } },
    { type: "response.output_item.added", output_index: 0, item: { ...item, content: [] } },
    { type: "response.output_text.delta", output_index: 0, content_index: 0, delta: text },
    { type: "response.completed", response: { id: "r", status: "completed", output: [item], usage: { input_tokens: 5, output_tokens: 7 } } },
  ];
};

/** Answers over WebSockets, or refuses to open them. */
class Sockets extends CopilotRequestHandler {
  opened = [];
  asked = [];
  requests = [];
  closed = 0;
  refuses = false;
  async sendRequest(request) {
    const { pathname } = new URL(request.url);
    if (pathname === "/models")
      return json({ data: [{ id: "carried", name: "Carried", supported_endpoints: ["/responses", "ws:/responses"] }] });
    this.requests.push(pathname);
    const { response } = events("by request").at(-1);
    return json(response);
  }
  async openWebSocket(context) {
    if (this.refuses) throw new Error("no sockets here");
    this.opened.push(context.url);
    const handler = this;
    class Socket extends CopilotWebSocketHandler {
      constructor() {
        super(context);
      }
      async sendRequestMessage(data) {
        handler.asked.push(JSON.parse(data));
        for (const event of events("by socket")) await this.sendResponseMessage(JSON.stringify(event));
      }
      async close(status) {
        handler.closed++;
        await super.close(status);
      }
    }
    return new Socket();
  }
}

test("an app carries WebSockets to models that have them, and what cannot be opened is asked by a request", async ({ start }) => {
  const handler = new Sockets();
  const client = start({
    requestHandler: handler,
    gitHubToken: "any",
    env: environment({ COPILOT_API_URL: "http://models.invalid" }),
  });
  const { session: chat } = await session(client, { model: "carried" });
  assert.equal(await ask(chat, "hello"), "by socket");
  assert.deepEqual(handler.opened, ["ws://models.invalid/responses"]);
  const [asked] = handler.asked;
  assert.deepEqual([asked.type, asked.model, asked.stream], ["response.create", "carried", undefined]);
  await until("the socket is closed", () => handler.closed === 1);
  assert.deepEqual(handler.requests, []);
  handler.refuses = true;
  assert.equal(await ask(chat, "again"), "by request");
  handler.refuses = false;
  const { session: plain } = await session(client, { model: "carried", capi: { enableWebSocketResponses: false } });
  assert.equal(await ask(plain, "hello"), "by request");
  assert.equal(handler.opened.length, 1);
});

test("who else has a session open has its requests carried, too", async ({ start, work }) => {
  const handler = new Handler();
  const connection = RuntimeConnection.forTcp({ path: lodge, connectionToken: "t" });
  const first = start({ connection, requestHandler: handler, workingDirectory: work });
  await first.start();
  const { session: chat } = await session(first);
  const second = start({ connection: RuntimeConnection.forUri(`localhost:${first.runtimePort}`, { connectionToken: "t" }) });
  const provider = { type: "openai", baseUrl: "http://models.invalid/v1" };
  const { session: same } = await resume(second, chat.sessionId, { model: "m", provider });
  assert.equal(await ask(same, "hello"), "carried by the app");
});

test("what is added to a prompt stands where recorded conversations have it", async ({ t, start, work }) => {
  const server = await modelServer(t, () => ({ content: "ok" }));
  const file = join(work, "attached.txt");
  await writeFile(file, "one line");
  const { session: chat } = await session(start(), { model: "m", provider: { type: "openai", baseUrl: server.url } });
  await ask(chat, {
    prompt: "Look.",
    attachments: [
      { type: "file", path: file, displayName: "attached.txt", lineRange: { start: 1, end: 1 } },
      {
        type: "selection", filePath: "a.cs", displayName: "a.cs", text: "x;",
        selection: { start: { line: 1, character: 0 }, end: { line: 1, character: 2 } },
      },
      { type: "github_reference", number: 7, title: "T", referenceType: "issue", state: "open", url: "https://example.test/7" },
    ],
  });
  const said = server.requests[0].body.messages.at(-1).content.replace(/<current_datetime>.*?<\/current_datetime>/, "");
  assert.equal(
    said,
    "<ide_selection>\nThe user has the following text selected in their IDE. This may or may not be related to their request.\n" +
      "File: a.cs (line 2)\n```\nx;\n```\n</ide_selection>\n\n\n\nLook.\n\n\n\n" +
      `<tagged_files>\n* ${file} (line 1 of 1 lines)\n</tagged_files>\n\n\n\n` +
      "<github_references>\n#7 - T [issue] [open] (https://example.test/7)\n</github_references>",
  );
});

test("a tool clears the context from inside and the seeded turn begins", async ({ t, start }) => {
  const server = await modelServer(t, (body, request, response, count) =>
    count === 1
      ? { tool_calls: [{ id: "call_1", type: "function", function: { name: "begin_anew", arguments: "{}" } }] }
      : { content: "fresh" },
  );
  const client = start();
  const events = [];
  const chat = await client.createSession({
    onPermissionRequest: approveAll,
    onEvent: (event) => events.push(event),
    model: "m",
    provider: { type: "openai", baseUrl: server.url },
    tools: [
      defineTool("begin_anew", {
        description: "Forgets everything",
        isTerminal: true,
        handler: async () => {
          await chat.rpc.history.clearContext({ prompt: "Begin." });
          return "cleared";
        },
      }),
    ],
  });
  await chat.send("call it");
  await event(events, "assistant.message", ({ data }) => data.content === "fresh");
  const last = server.requests.at(-1).body.messages.filter(({ role }) => role !== "system");
  assert.equal(last.length, 1);
  assert.match(last[0].content, /Begin\.$/);
  assert.equal((await event(events, "session.context_cleared")).data.initialMessage, "Begin.");
});
