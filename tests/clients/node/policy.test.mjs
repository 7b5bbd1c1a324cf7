// What an app fixes for a session that nobody in it can wave aside, and options that are refused rather than ignored.

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { defineTool } from "@github/copilot-sdk";

import { ask, event, ofType, resume, session, test } from "./help.mjs";

const approve = (asked) => (request) => {
  asked.push(request);
  return { kind: "approve-once" };
};

test("a policy denies, asks and allows, whatever hooks and tools say", async ({ start, work }) => {
  await writeFile(join(work, "known.txt"), "known");
  const asked = [];
  const deploy = defineTool("deploy", {
    description: "Deploys",
    parameters: { type: "object", properties: {} },
    handler: () => "deployed",
    skipPermission: true,
  });
  const { session: chat, events } = await session(start(), {
    onPermissionRequest: approve(asked),
    tools: [deploy],
    hooks: { onPreToolUse: ({ toolName }) => (toolName === "view" ? undefined : { permissionDecision: "allow" }) },
    managedSettings: {
      permissions: {
        deny: ["Shell(rm*)", "Tool(deploy)"],
        ask: ["Shell(touch *)"],
        allow: ["Read(**)"],
      },
    },
  });
  const told = await event(events, "session.managed_settings_resolved");
  assert.equal(told.data.source, "client");
  assert.equal(told.data.clientManaged, true);
  assert.equal(told.data.bypassPermissionsDisabled, false);
  assert.deepEqual(told.data.managedKeys, ["permissions"]);
  assert.equal(told.ephemeral, true);

  assert.match(await ask(chat, 'call bash {"command":"rmdir nothing"}'), /denied by the organisation's policy/);
  assert.match(await ask(chat, "call deploy {}"), /denied by the organisation's policy/);
  assert.deepEqual(asked, []);
  const denied = ofType(events, "permission.completed").map((done) => done.data.result.kind);
  assert.deepEqual(denied, ["denied-by-rules", "denied-by-rules"]);

  assert.match(await ask(chat, 'call view {"path":"known.txt"}'), /known/);
  assert.match(await ask(chat, 'call bash {"command":"echo free"}'), /free/);
  assert.deepEqual(asked, []);

  await ask(chat, 'call bash {"command":"touch made"}');
  assert.equal(asked.length, 1);
  assert.equal(asked[0].managedApprovalRequired, true);
  assert.equal((await chat.rpc.permissions.setApproveAll({ enabled: true })).success, true);
  await ask(chat, 'call bash {"command":"touch made"}');
  assert.equal(asked.length, 2);
});

test("a policy keeps anybody from approving everything, until the session is taken up without it", async ({ start }) => {
  const client = start();
  const asked = [];
  const { session: chat, events } = await session(client, {
    onPermissionRequest: approve(asked),
    managedSettings: { permissions: { disableBypassPermissionsMode: "disable" } },
  });
  assert.equal((await event(events, "session.managed_settings_resolved")).data.bypassPermissionsDisabled, true);
  assert.equal((await chat.rpc.permissions.setApproveAll({ enabled: true })).success, false);
  const refused = await event(events, "session.managed_settings_enforced");
  assert.equal(refused.data.action, "bypass_permissions_blocked");
  assert.equal(refused.data.setting, "permissions.disableBypassPermissionsMode");
  assert.deepEqual(await chat.rpc.permissions.setMode({ mode: "allow-all" }), { success: false, mode: "manual" });
  await ask(chat, 'call bash {"command":"touch made"}');
  assert.equal(asked.length, 1);

  const again = await resume(client, chat.sessionId, { onPermissionRequest: approve(asked) });
  assert.equal((await event(again.events, "session.managed_settings_resolved")).data.source, "none");
  assert.equal((await again.session.rpc.permissions.setApproveAll({ enabled: true })).success, true);
});

test("what cannot be kept is refused, and says why", async ({ start }) => {
  const client = start();
  const permissions = (more) => ({ managedSettings: { permissions: more } });
  for (const [config, why] of [
    [permissions({ deny: ["Shell(rm"] }), /is not a rule/],
    [permissions({ ask: ["Fly(away)"] }), /is not a rule/],
    [permissions({ forbid: ["Shell"] }), /unknown field/],
    [{ managedSettings: { model: "m" } }, /unknown field/],
    [{ enableManagedSettings: true, gitHubToken: "t" }, /fetches no policy/],
    [{ cloud: { repository: { owner: "o", name: "n" } } }, /run on this host/],
    [{ askUserVariant: "telepathy" }, /telepathy/],
  ]) {
    await assert.rejects(session(client, config), why, JSON.stringify(config));
  }
});

test("large results go to the directory that the app names", async ({ start, work }) => {
  const outputDirectory = join(work, "large");
  const { session: chat, events } = await session(start(), { largeOutput: { maxSizeBytes: 100, outputDirectory } });
  await ask(chat, 'call bash {"command":"seq 1 200"}');
  const { content } = (await event(events, "tool.execution_complete")).data.result;
  const [, path] = /Saved to: (\S+)/.exec(content);
  assert.ok(path.startsWith(outputDirectory), path);
  assert.match(await readFile(path, "utf8"), /\n200\n/);
});

test("the agent asks by a form where the app wants it so", async ({ start }) => {
  const forms = [];
  const { session: chat, events } = await session(start(), {
    askUserVariant: "elicitation",
    onElicitationRequest: (form) => {
      forms.push(form);
      return { action: "accept", content: { colour: "blue" } };
    },
  });
  await chat.rpc.tools.initializeAndValidate();
  const { tools } = await chat.rpc.tools.getCurrentMetadata();
  const { properties } = tools.find(({ name }) => name === "ask_user").input_schema;
  assert.deepEqual(Object.keys(properties), ["message", "requestedSchema"]);
  const requestedSchema = { type: "object", properties: { colour: { type: "string" } } };
  const call = (args) => ask(chat, `call ask_user ${JSON.stringify(args)}`);
  assert.match(await call({ message: "Which?", requestedSchema }), /User responded: {"colour":"blue"}/);
  assert.equal(forms[0].message, "Which?");
  assert.deepEqual(forms[0].requestedSchema, requestedSchema);
  const requested = await event(events, "elicitation.requested");
  assert.equal(requested.data.toolCallId, (await event(events, "tool.execution_start")).data.toolCallId);
  assert.equal((await event(events, "elicitation.completed")).data.action, "accept");
  assert.match(await call({ question: "Which?" }), /needs a `message`/);
});
