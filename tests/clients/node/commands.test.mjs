// Slash commands, and taking back: of an app, and of an app and an editor in one session.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

import { RuntimeConnection, ask, event, ofType, resume, session, test as alone, until } from "./help.mjs";
import { test, texts } from "./vscode.mjs";

const prompts = async (work) => {
  const dir = join(work, ".github", "prompts");
  await mkdir(dir, { recursive: true });
  await writeFile(join(dir, "greet.prompt.md"), "---\ndescription: Greets somebody\nargument-hint: NAME\n---\nsay hello, $ARGUMENTS");
};

alone("commands are listed by kind and invoked by name", async ({ start, work }) => {
  await prompts(work);
  const called = [];
  const { session: chat, events } = await session(start(), {
    commands: [{ name: "deploy", description: "Ships it", handler: ({ args }) => void called.push(args) }],
  });
  const { commands } = await chat.rpc.commands.list();
  const kinds = Object.fromEntries(commands.map(({ name, kind }) => [name, kind]));
  assert.deepEqual([kinds.help, kinds.greet, kinds.deploy], ["builtin", "skill", "client"]);
  assert.deepEqual(commands.find(({ name }) => name === "greet"), {
    name: "greet", description: "Greets somebody", kind: "skill", allowDuringAgentExecution: true, input: { hint: "NAME" },
  });
  const only = await chat.rpc.commands.list({ includeBuiltins: false, includeSkills: false });
  assert.deepEqual(only.commands.map(({ name }) => name), ["deploy"]);

  const help = await chat.rpc.commands.invoke({ name: "/Help" });
  assert.equal(help.kind, "text");
  assert.match(help.text, /\/rewind/);
  assert.deepEqual(await chat.rpc.commands.invoke({ name: "greet", input: "you" }), {
    kind: "agent-prompt", prompt: "say hello, you", displayPrompt: "/greet you",
  });
  assert.equal((await chat.rpc.commands.invoke({ name: "plan", input: "say so" })).mode, "plan");
  assert.deepEqual(await chat.rpc.commands.invoke({ name: "deploy", input: "now" }), { kind: "completed" });
  assert.deepEqual(called, ["now"]);
  await assert.rejects(chat.rpc.commands.invoke({ name: "nonsense" }), /Unknown command/);
  await assert.rejects(chat.rpc.commands.invoke({ name: "mode", input: "fast" }), /There is no mode/);
  await event(events, "command.completed");
});

const everything = {
  command: process.execPath,
  args: [join(dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/server-everything/package.json")), "dist/index.js"), "stdio"],
  tools: ["echo", "get-sum"],
};

alone("agents, skills and MCP servers are listed and switched by commands", async ({ start, work }) => {
  const dir = join(work, "skills");
  await mkdir(join(dir, "greeting"), { recursive: true });
  await writeFile(join(dir, "greeting", "SKILL.md"), "---\nname: greeting\ndescription: How to greet\n---\nSay hi.\n");
  const { session: chat } = await session(start(), {
    customAgents: [{ name: "poet", description: "Writes verse", prompt: "You are a poet." }],
    skillDirectories: [dir],
    mcpServers: { every: everything, broken: { command: join(work, "nothing-here"), args: [] } },
  });
  const give = async (name, input) => (await chat.rpc.commands.invoke({ name, input })).text;

  assert.equal(await give("agents"), "- `poet`: Writes verse\n");
  assert.match(await give("agents", "poet"), /Switched to `poet`/);
  assert.match(await give("agents"), /`poet` \(answers now\)/);
  assert.equal((await chat.rpc.agent.getCurrent()).agent.name, "poet");
  await give("agents", "none");
  assert.equal((await chat.rpc.agent.getCurrent()).agent, null);
  await assert.rejects(give("agents", "nobody"), /nobody/);

  assert.equal(await give("skills"), "- `greeting`: How to greet\n");
  assert.equal(await give("skills", "off greeting"), "`greeting` is off in this session.");
  assert.equal(await give("skills"), "- `greeting` (off): How to greet\n");
  await give("skills", "on greeting");
  assert.equal(await give("skills", "reload"), "- `greeting`: How to greet\n");
  await assert.rejects(give("skills", "on nothing"), /There is no skill named nothing/);
  await assert.rejects(give("skills", "nonsense"), /\/skills on NAME/);

  const listed = await give("mcp");
  assert.match(listed, /- `every`: connected, 2 tools/);
  assert.match(listed, /- `broken`: failed: .*nothing-here/);
  assert.match(await give("mcp", "every"), /connected[^]*`echo`[^]*\/mcp__every__/);
  await give("mcp", "disable every");
  assert.match(await give("mcp"), /- `every`: off/);
  assert.match(await give("mcp", "enable every"), /connected[^]*`echo`/);
  assert.match(await give("mcp", "restart every"), /connected[^]*`echo`/);
  await assert.rejects(give("mcp", "nobody"), /There is no MCP server named nobody/);
  await assert.rejects(give("mcp", "restart broken"), /nothing-here/);
});

alone("prompts of MCP servers are commands", async ({ start }) => {
  const { session: chat } = await session(start(), { mcpServers: { every: everything } });
  await chat.rpc.mcp.list();
  const { commands } = await chat.rpc.commands.list();
  const prompts = commands.filter(({ name }) => name.startsWith("mcp__every__"));
  const weather = prompts.find(({ input }) => input?.hint === "CITY [STATE]");
  assert.ok(weather, JSON.stringify(prompts));
  const filled = await chat.rpc.commands.invoke({ name: weather.name, input: "Ulm" });
  assert.equal(filled.kind, "agent-prompt");
  assert.match(filled.prompt, /Ulm/);
  await assert.rejects(chat.rpc.commands.invoke({ name: weather.name }), /CITY is missing/);
});

alone("a session is taken back with its files", async ({ start, work }) => {
  const { session: chat, events } = await session(start());
  const path = join(work, "a.txt");
  await ask(chat, "say first");
  await ask(chat, `call create ${JSON.stringify({ path, file_text: "a\nb\n" })} then say made`);
  const { points, fileChangeTrackingEnabled } = await chat.rpc.history.listRewindPoints();
  assert.equal(fileChangeTrackingEnabled, true);
  assert.deepEqual(points.map(({ fileCount, turnChangedFiles, linesAdded }) => [fileCount, turnChangedFiles, linesAdded]), [[1, false, 0], [1, true, 2]]);
  const { eventId } = points[1];
  const preview = await chat.rpc.history.previewRewind({ eventId });
  assert.deepEqual(preview, { available: true, fileCount: 1, files: [{ path, changeType: "created", linesAdded: 2, linesRemoved: 0 }] });
  const done = await chat.rpc.history.rewind({ eventId, mode: "conversation-and-files" });
  assert.equal(done.outcome, "success");
  assert.deepEqual(done.restoredFiles, [path]);
  assert.deepEqual(done.skippedFiles, []);
  assert.ok(done.eventsRemoved > 0);
  assert.ok(!existsSync(path));
  const rewound = await event(events, "session.snapshot_rewind");
  assert.equal(rewound.data.upToEventId, eventId);
  assert.equal((await chat.rpc.history.listRewindPoints()).points.length, 1);
  await chat.rpc.commands.invoke({ name: "undo" });
  assert.ok(existsSync(path));
  assert.equal((await chat.rpc.history.listRewindPoints()).points.length, 2);
});

test("commands are completed and carried out in an editor, and an app sees them", async ({ work, host, window, startApp }) => {
  await prompts(work);
  const mine = await window();
  const chat = mine.create(work);
  await chat.ask("say hello");
  const complete = async (text) => (await mine.client.completions({ channel: chat.uri.toString(), kind: "userMessage", text, offset: text.length })).items;
  const items = await complete("/gr");
  assert.deepEqual(items.map(({ insertText, rangeStart, rangeEnd, attachment }) => [insertText, rangeStart, rangeEnd, attachment._meta.command]), [["/greet ", 0, 3, "greet"]]);
  assert.ok((await complete("/")).length > 10);
  assert.deepEqual(await complete("/greet you"), []);

  const connection = RuntimeConnection.forUri(host.sdk.url, { connectionToken: host.sdk.connectionToken });
  const app = startApp({ connection, workingDirectory: undefined, baseDirectory: undefined, env: undefined });
  const { session: other, events } = await resume(app, chat.session.path.slice(1));
  const usage = await chat.ask("/usage");
  assert.equal(usage.message.text, "/usage");
  assert.match(texts(usage), /rehearsal: 1 call,/);
  const said = await event(events, "user.message");
  assert.deepEqual([said.data.content, said.data.source], ["/usage", "command"]);
  const info = await event(events, "session.info");
  assert.deepEqual([info.data.infoType, info.data.message], ["command", texts(usage)]);
  await event(events, "session.idle");

  const greeted = await chat.ask("/greet you");
  assert.equal(greeted.message.text, "/greet you");
  assert.equal(texts(greeted), "hello, you");
  assert.match(texts(await chat.ask("/mode fast")) + JSON.stringify(chat.shown.turns.at(-1)), /There is no mode/);
  assert.match(texts(await chat.ask("/etc is a directory")), /You said/);

  // What an editor takes back goes everywhere, and comes back everywhere.
  await chat.ask("say to be taken back");
  await chat.ask("/rewind");
  await until("it is gone", () => !chat.shown.turns.some(({ message }) => message.text.includes("taken back")));
  await until("the app is told", () => ofType(events, "session.snapshot_rewind").length === 1);
  await other.rpc.commands.invoke({ name: "undo" });
  await until("it is back", () => chat.shown.turns.some(({ message }) => message.text === "say to be taken back"));
});

test("what was said in commands is there after the host was killed", async ({ work, host, window }) => {
  const chat = (await window()).create(work);
  await chat.ask("say hello");
  const before = await chat.ask("/title Mine");
  assert.match(texts(before), /Mine/);
  await host.kill();
  await host.restart();
  const again = (await window()).look(chat.session);
  await until("it is shown", () => again.shown?.turns.length === 2);
  assert.equal(texts(again.shown.turns[1]), texts(before));
  assert.equal(again.about.title, "Mine");
});
