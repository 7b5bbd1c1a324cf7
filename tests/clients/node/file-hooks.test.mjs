// Hooks that files describe: of an app that asks for them, and in a session that an app and an editor share.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { RuntimeConnection, ask, event, ofType, resume, session, test as alone, until } from "./help.mjs";
import { calls, test } from "./vscode.mjs";

async function hooks(dir, hooks) {
  await mkdir(dir, { recursive: true });
  await writeFile(join(dir, "hooks.json"), JSON.stringify({ version: 1, hooks }));
}

alone("an app has the hooks of its folder when it asks for them", async ({ start, work }) => {
  await hooks(join(work, ".github", "hooks"), {
    userPromptSubmitted: [{ type: "command", bash: "cat > given.json" }],
    preToolUse: [{ type: "command", bash: "cat > /dev/null; echo '{\"permissionDecision\":\"deny\",\"permissionDecisionReason\":\"by a file\"}'" }],
  });
  const client = start();
  const without = await session(client);
  await ask(without.session, "say hello");
  assert.ok(!existsSync(join(work, "given.json")));
  assert.equal(ofType(without.events, "hook.start").length, 0);

  const { session: chat, events } = await session(client, { enableFileHooks: true });
  await ask(chat, 'call bash {"command":"touch made"} then say done');
  assert.ok(!existsSync(join(work, "made")));
  const given = JSON.parse(await readFile(join(work, "given.json"), "utf8"));
  assert.equal(given.sessionId, chat.sessionId);
  assert.equal(given.cwd, work);
  assert.match(given.prompt, /touch made/);
  const end = await event(events, "hook.end", ({ data }) => data.hookType === "preToolUse");
  assert.deepEqual(end.data.output, { permissionDecision: "deny", permissionDecisionReason: "by a file" });
  assert.equal(end.data.success, true);
  assert.equal(ofType(events, "hook.start").find(({ data }) => data.hookType === "preToolUse").data.hookInvocationId, end.data.hookInvocationId);
});

test("the person's hooks have a say in an editor's session, and an app sees them", async ({ home, work, host, window, startApp }) => {
  await hooks(join(home, "hooks"), {
    PreToolUse: [{ type: "command", bash: "cat > given.json; echo 'not on my watch' >&2; exit 2", matcher: "bash" }],
  });
  const chat = (await window()).create(work);
  await chat.ask("say hello");
  const connection = RuntimeConnection.forUri(host.sdk.url, { connectionToken: host.sdk.connectionToken });
  const app = startApp({ connection, workingDirectory: undefined, baseDirectory: undefined, env: undefined });
  const { events } = await resume(app, chat.session.path.slice(1));
  const turn = await chat.ask('call bash {"command":"touch made"} then say done');
  const [call] = calls(turn);
  assert.equal(call.success, false);
  assert.match(JSON.stringify(call), /Denied by preToolUse hook: not on my watch/);
  assert.ok(!existsSync(join(work, "made")));
  const given = JSON.parse(await readFile(join(work, "given.json"), "utf8"));
  assert.equal(given.hook_event_name, "PreToolUse");
  assert.deepEqual(given.tool_input, { command: "touch made" });
  const end = await event(events, "hook.end");
  assert.equal(end.data.hookType, "preToolUse");
  await until("the result is told", () => ofType(events, "tool.execution_complete").length === 1);
});
