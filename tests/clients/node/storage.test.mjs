// Session files that the client keeps (`sessionFs`), its database too, and what must not be written down at all.

import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { join } from "node:path";

import { defineTool } from "@github/copilot-sdk";

import { ask, event, lodge, log, ofType, resume, RuntimeConnection, session, test, until } from "./help.mjs";

const STATE = "/kept/session-state";
const sessionFs = { initialCwd: "/", sessionStatePath: STATE, conventions: "posix" };

/** A file system in memory for each session. Counts what is asked of it. */
function storage({ fails = () => false, sqlite } = {}) {
  const sessions = new Map();
  const asked = [];
  const missing = (path) => Object.assign(new Error(`there is no ${path}`), { code: "ENOENT" });
  const provider = ({ sessionId }) => {
    const files = sessions.get(sessionId) ?? new Map();
    sessions.set(sessionId, files);
    const folders = new Set();
    const put = (how, path, content) => {
      asked.push(`${how} ${path}`);
      if (fails(how, path)) throw new Error("the disk is full");
      const folder = path.slice(0, path.lastIndexOf("/"));
      assert.ok(folders.has(folder) || [...files.keys()].some((known) => known.startsWith(`${folder}/`)), `${folder} was not made`);
      files.set(path, content);
    };
    return {
      readFile: async (path) => files.get(path) ?? Promise.reject(missing(path)),
      writeFile: async (path, content) => put("write", path, content),
      appendFile: async (path, content) => put("append", path, (files.get(path) ?? "") + content),
      exists: async (path) => [...files.keys()].some((known) => known === path || known.startsWith(`${path}/`)),
      stat: async (path) => Promise.reject(missing(path)),
      mkdir: async (path) => void folders.add(path),
      readdir: async () => [],
      readdirWithTypes: async (path) => {
        const names = new Map();
        for (const known of files.keys()) {
          if (!known.startsWith(`${path}/`)) continue;
          const [name, ...rest] = known.slice(path.length + 1).split("/");
          names.set(name, rest.length ? "directory" : "file");
        }
        if (!names.size) throw missing(path);
        return [...names].map(([name, type]) => ({ name, type }));
      },
      rm: async (path) => void files.delete(path),
      rename: async () => {
        throw new Error("nobody renames");
      },
      ...(sqlite ? { sqlite: sqlite(sessionId) } : {}),
    };
  };
  const read = (chat, name) => sessions.get(chat.sessionId)?.get(`${STATE}/${name}`);
  const lines = (chat) => read(chat, "events.jsonl").trimEnd().split("\n").map((line) => JSON.parse(line));
  return { sessions, asked, provider, read, lines };
}

test("a client keeps the session's files: log, plan, metadata, checkpoints, files and large results", async ({ start, home }) => {
  const kept = storage();
  const client = start({ sessionFs });
  const lines = `${"x".repeat(99)}\n`.repeat(1000);
  const big = defineTool("big", { description: "Much", handler: async () => lines });
  const { session: chat, events } = await session(client, { createSessionFsProvider: kept.provider, tools: [big] });
  assert.equal(chat.workspacePath, STATE);
  await chat.rpc.plan.update({ content: "# Mine" });
  assert.equal(kept.read(chat, "plan.md"), "# Mine", "it is there when the answer is");
  await chat.rpc.workspaces.createFile({ path: "deep/note.txt", content: "noted" });
  assert.equal(kept.read(chat, "files/deep/note.txt"), "noted");
  await ask(chat, "call big {} then say done");
  const done = await event(events, "tool.execution_complete");
  const [, name] = done.data.result.content.match(/Saved to: \/kept\/session-state\/(temp\/\S+)/);
  assert.equal(kept.read(chat, name), lines);
  // The model reads it by the name that it was given.
  assert.match(await ask(chat, `call view ${JSON.stringify({ path: `${STATE}/${name}`, view_range: [1, 2] })}`), /xxxx/);
  assert.match(kept.read(chat, "workspace.yaml"), new RegExp(`id: "?${chat.sessionId}`));
  assert.match(kept.read(chat, "checkpoints/index.md"), /Title/);
  await chat.disconnect();
  assert.deepEqual(kept.lines(chat), await log(home, chat.sessionId), "all that is here is there");
  assert.equal(kept.lines(chat).at(-1).type, "session.shutdown");
  assert.ok(kept.asked.filter((line) => line === `write ${STATE}/events.jsonl`).length <= 1, "the log is appended to");
});

test("every event that the client hears of is in its log already", async ({ start }) => {
  const kept = storage();
  const late = [];
  let chat;
  ({ session: chat } = await session(start({ sessionFs }), {
    createSessionFsProvider: kept.provider,
    onEvent: (event) => {
      if (event.ephemeral || !chat) return;
      if (!kept.read(chat, "events.jsonl").includes(event.id)) late.push(event.type);
    },
  }));
  assert.match(await ask(chat, 'call bash {"command":"echo hello"} then say done'), /done/);
  await chat.rpc.history.compact();
  assert.deepEqual(late, []);
  assert.match(kept.read(chat, "checkpoints/index.md"), /\| 1 \|/);
});

test("a session comes back from the client's files on a host that never had it", async ({ start, home }) => {
  const kept = storage();
  const first = start({ sessionFs });
  const { session: chat } = await session(first, { createSessionFsProvider: kept.provider });
  await ask(chat, "say the word is swordfish");
  await chat.rpc.plan.update({ content: "# Kept" });
  await first.stop();
  await rm(home, { recursive: true });

  const second = start({ sessionFs });
  const { session: again } = await resume(second, chat.sessionId, { createSessionFsProvider: kept.provider });
  assert.equal((await again.rpc.plan.read()).content, "# Kept");
  assert.match(await ask(again, "what did I say?"), /swordfish/);
  await again.disconnect();
  const ids = kept.lines(chat).map(({ id }) => id);
  assert.equal(new Set(ids).size, ids.length, "nothing is there twice");
  assert.equal(ofType(kept.lines(chat), "user.message").length, 2);

  await assert.rejects(
    second.resumeSession("nobody-has-it", { createSessionFsProvider: kept.provider, onPermissionRequest: () => ({ kind: "reject" }) }),
    /Session not found/,
  );
});

test("what the client changed counts when the session is taken up again", async ({ start }) => {
  const kept = storage();
  const client = start({ sessionFs });
  const { session: chat } = await session(client, { createSessionFsProvider: kept.provider });
  await ask(chat, "say one");
  await ask(chat, "say two");
  await chat.disconnect();
  const files = kept.sessions.get(chat.sessionId);
  const second = kept.lines(chat).findIndex((line) => line.type === "user.message" && line.data.content === "say two");
  const cut = kept.lines(chat).slice(0, second).map((line) => `${JSON.stringify(line)}\n`);
  files.set(`${STATE}/events.jsonl`, cut.join(""));
  files.set(`${STATE}/plan.md`, "# Another");
  const { session: again } = await resume(client, chat.sessionId, { createSessionFsProvider: kept.provider });
  assert.deepEqual(ofType(await again.getEvents(), "user.message").map(({ data }) => data.content), ["say one"]);
  assert.equal((await again.rpc.plan.read()).content, "# Another");
});

test("a client that cannot write is told, and what it missed comes when it can", async ({ start }) => {
  let full = false;
  const kept = storage({ fails: () => full });
  const { session: chat, events } = await session(start({ sessionFs }), { createSessionFsProvider: kept.provider });
  full = true;
  // The session goes on: its log is here as well.
  await chat.rpc.plan.update({ content: "# Unheard" });
  const error = await event(events, "session.error");
  assert.match(error.data.message, /the disk is full/);
  full = false;
  await ask(chat, "say again");
  await chat.disconnect();
  assert.equal(kept.read(chat, "plan.md"), "# Unheard");
  assert.equal(kept.lines(chat).at(-1).type, "session.shutdown");
});

test("the sql tool and the todos use the client's database", async ({ start }) => {
  const asked = [];
  const sqlite = () => ({
    exists: async () => true,
    query: async (kind, query) => {
      asked.push([kind, query]);
      if (/boom/.test(query)) throw new Error("no such table: boom");
      if (kind === "run") return { rows: [], columns: [], rowsAffected: 1, lastInsertRowid: 7 };
      if (kind === "query" && /FROM todos/.test(query)) {
        return { rows: [{ id: "a", title: "A", description: null, status: "done", created_at: "now" }], columns: [], rowsAffected: 0 };
      }
      return undefined;
    },
  });
  const kept = storage({ sqlite });
  const config = { ...sessionFs, capabilities: { sqlite: true } };
  const { session: chat, events } = await session(start({ sessionFs: config }), { createSessionFsProvider: kept.provider });
  const sql = (query) => ask(chat, `call sql ${JSON.stringify({ description: "d", query })}`);
  assert.match(await sql("INSERT INTO todos (id, title) VALUES ('a', 'A;B')"), /1 row\(s\) inserted. Last inserted row ID: 7/);
  assert.deepEqual(asked[0][0], "exec", "the tables are made first");
  assert.ok(asked.some(([kind, query]) => kind === "run" && query.includes("A;B")));
  assert.match(await sql("SELECT id FROM todos; SELECT * FROM boom"), /Executed 1 statement/);
  assert.equal(ofType(events, "tool.execution_complete").at(-1).data.success, false);
  assert.deepEqual((await chat.rpc.plan.readSqlTodos()).rows[0].title, "A");
  await event(events, "session.todos_changed");
});

test("files can be kept elsewhere only before there are sessions", async ({ start }) => {
  const server = start({ connection: RuntimeConnection.forTcp({ path: lodge, connectionToken: "t" }) });
  await session(server);
  const second = start({ connection: RuntimeConnection.forUri(`localhost:${server.runtimePort}`, { connectionToken: "t" }), sessionFs });
  await assert.rejects(second.start(), /sessions already exist/);
});

test("registered secrets are in no event, live or in the log", async ({ start, home }) => {
  const client = start();
  const { session: chat, events } = await session(client);
  await client.rpc.secrets.addFilterValues({ values: ["hunter2-hunter2", ""] });
  await ask(chat, 'call bash {"command":"echo hunter2-hunter2"} then say done');
  await until("the turn is over", () => ofType(events, "session.idle").length > 0);
  const text = JSON.stringify(events.filter((event) => !event.ephemeral)) + JSON.stringify(await log(home, chat.sessionId));
  assert.ok(!text.includes("hunter2"));
  assert.match(text, /echo \*\*\*\*\*\*/);
});
