// Capability: skills, custom agents and sub-agents.

import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { ask, checkChain, event, lastUser, log, modelServer, ofType, resume, session, test, toolCall, types, until } from "./help.mjs";

const SKILL = `---
name: greeting
description: How to greet
allowed-tools: view
---

# Greeting

Say PINEAPPLE.
`;

async function skillFolder(work, name = "greeting", text = SKILL) {
  const dir = join(work, "some skills");
  await mkdir(join(dir, name), { recursive: true });
  await writeFile(join(dir, name, "SKILL.md"), text);
  return dir;
}

const server = (model) => ({ model: "test-model", provider: { type: "openai", baseUrl: model.url } });
const toolNames = (body) => (body.tools ?? []).map((tool) => tool.function.name);
const toolResult = (body) => body.messages.findLast((message) => message.role === "tool")?.content;
const system = (body) => body.messages.find((message) => message.role === "system").content;
const textOf = (message) => (typeof message.content === "string" ? message.content : message.content.map((part) => part.text).join(""));

test("a skill is named to the model, loaded on demand, and told of by skill.invoked", async ({ t, start, work }) => {
  const dir = await skillFolder(work);
  const model = await modelServer(t, (body) => (toolResult(body) ? { content: "PINEAPPLE" } : toolCall("skill", { skill: "greeting" })));
  const { session: chat, events } = await session(start(), { ...server(model), skillDirectories: [dir] });
  assert.equal(await ask(chat, "greet me"), "PINEAPPLE");
  const offered = model.requests[0].body.tools.find((tool) => tool.function.name === "skill");
  assert.match(offered.function.description, /greeting: How to greet/);
  assert.doesNotMatch(JSON.stringify(model.requests[0].body), /PINEAPPLE/, "its text comes only when it is wanted");
  const [, second] = model.requests;
  assert.equal(toolResult(second.body), 'Skill "greeting" loaded successfully. Follow the instructions in the skill context.');
  assert.equal(
    lastUser(second.body),
    `<skill-context name="greeting">\nBase directory for this skill: ${join(dir, "greeting")}\n\n# Greeting\n\nSay PINEAPPLE.\n\n</skill-context>`,
  );
  const invoked = await event(events, "skill.invoked");
  assert.equal(invoked.data.name, "greeting");
  assert.equal(invoked.data.path, join(dir, "greeting", "SKILL.md"));
  assert.equal(invoked.data.content, "# Greeting\n\nSay PINEAPPLE.\n");
  assert.deepEqual(invoked.data.allowedTools, ["view"]);
  assert.equal(invoked.data.trigger, "agent-invoked");
  assert.equal(invoked.data.source, "custom");
  const loaded = await event(events, "session.skills_loaded");
  assert.equal(loaded.ephemeral, true);
  assert.deepEqual(loaded.data.skills.map(({ name, enabled }) => [name, enabled]), [["greeting", true]]);
  const { skills } = await chat.rpc.skills.getInvoked();
  assert.equal(skills[0].name, "greeting");
  checkChain(events);
});

test("skills can be listed, turned off and on, and looked for anew; a bad one is a warning", async ({ start, work }) => {
  const dir = await skillFolder(work);
  const { session: chat, events } = await session(start(), { skillDirectories: [dir], disabledSkills: ["greeting"] });
  const enabled = async () => (await chat.rpc.skills.list()).skills.map(({ name, enabled }) => [name, enabled]);
  assert.deepEqual(await enabled(), [["greeting", false]]);
  const tools = async () => (await chat.rpc.tools.getCurrentMetadata()).tools.map(({ name }) => name);
  assert.ok(!(await tools()).includes("skill"));
  await chat.rpc.skills.enable({ name: "greeting" });
  assert.deepEqual(await enabled(), [["greeting", true]]);
  assert.ok((await tools()).includes("skill"));
  await chat.rpc.skills.disable({ name: "greeting" });
  assert.deepEqual(await enabled(), [["greeting", false]]);
  await assert.rejects(chat.rpc.skills.enable({ name: "no such skill" }), /no such skill/);
  await ask(chat, "say hello");
  await skillFolder(work, "late", "---\nname: late\ndescription: comes late\n---\nx\n");
  await skillFolder(work, "bad", "---\nname: bad\n");
  await chat.rpc.skills.ensureLoaded();
  assert.equal((await enabled()).length, 1);
  const { errors } = await chat.rpc.skills.reload();
  assert.match(errors.join(), /bad/);
  assert.deepEqual((await enabled()).map(([name]) => name), ["greeting", "late"]);
  assert.match((await event(events, "session.warning")).data.message, /bad/);
  await ask(chat, "say hello again");
  const message = ofType(events, "user.message").at(-1);
  assert.match(message.data.transformedContent, /<tools_changed_notice>\nNew tools available: skill\n<\/tools_changed_notice>/);
});

const AGENTS = [
  { name: "poet", displayName: "The Poet", description: "Writes verse", prompt: "You are a POET.", tools: ["view"] },
  { name: "critic", description: "Judges verse", prompt: "You are a CRITIC.", infer: false },
];

test("custom agents can be listed, chosen and left", async ({ t, start }) => {
  const model = await modelServer(t, () => ({ content: "fine" }));
  const { session: chat, events } = await session(start(), { ...server(model), customAgents: AGENTS });
  const { agents } = await chat.rpc.agent.list();
  assert.deepEqual(agents, [
    { name: "poet", displayName: "The Poet", description: "Writes verse", id: "poet", tools: ["view"] },
    { name: "critic", displayName: "critic", description: "Judges verse", id: "critic", disableModelInvocation: true },
  ]);
  assert.equal((await chat.rpc.agent.getCurrent()).agent, null);
  assert.equal((await chat.rpc.agent.select({ name: "poet" })).agent.displayName, "The Poet");
  assert.deepEqual((await event(events, "subagent.selected")).data, { agentName: "poet", agentDisplayName: "The Poet", tools: ["view"] });
  assert.equal((await chat.rpc.agent.getCurrent()).agent.name, "poet");
  await ask(chat, "go");
  assert.match(system(model.requests[0].body), /You are a POET/);
  assert.deepEqual(toolNames(model.requests[0].body), ["view"]);
  await chat.rpc.agent.deselect();
  assert.deepEqual((await event(events, "subagent.deselected")).data, {});
  await ask(chat, "go");
  assert.doesNotMatch(system(model.requests[1].body), /POET/);
  assert.ok(toolNames(model.requests[1].body).includes("bash"));
  const task = model.requests[1].body.tools.find((tool) => tool.function.name === "task");
  assert.match(task.function.description, /poet: Writes verse/);
  assert.doesNotMatch(task.function.description, /critic/, "the model may not choose it");
  await assert.rejects(chat.rpc.agent.select({ name: "nobody" }), /nobody/);
});

test("the words of an agent can be replaced, for as long as the session is in memory", async ({ t, start }) => {
  const model = await modelServer(t, () => ({ content: "fine" }));
  const client = start();
  const { session: chat } = await session(client, { ...server(model), customAgents: AGENTS, agent: "poet" });
  await chat.rpc.agent.setPrompt({ id: "poet", prompt: "You are a PROSAIST." });
  await ask(chat, "go");
  assert.match(system(model.requests[0].body), /PROSAIST/);
  assert.doesNotMatch(system(model.requests[0].body), /POET/);
  await chat.rpc.agent.setPrompt({ id: "explore", prompt: "Look around." });
  const { agents } = await chat.rpc.agent.list({ includeBuiltInAgents: true, includePrompt: true });
  assert.equal(agents.find(({ id }) => id === "explore").prompt, "Look around.");
  await assert.rejects(chat.rpc.agent.setPrompt({ id: "general-purpose", prompt: "x" }), /general-purpose/);
  await assert.rejects(chat.rpc.agent.setPrompt({ id: "nobody", prompt: "x" }), /nobody/);
  await chat.disconnect();
  const { session: again } = await resume(client, chat.sessionId, { ...server(model), customAgents: AGENTS, agent: "poet" });
  await ask(again, "go");
  assert.match(system(model.requests[1].body), /POET/);
});

test("a session can begin with an agent, its skills and its model; an unknown one is refused", async ({ t, start, work }) => {
  const dir = await skillFolder(work);
  const model = await modelServer(t, () => ({ content: "fine" }));
  const agent = { name: "host", prompt: "You HOST.", skills: ["greeting"], model: "other-model" };
  const config = { ...server(model), customAgents: [agent], skillDirectories: [dir] };
  const client = start();
  const { session: chat, events } = await session(client, { ...config, agent: "host" });
  await ask(chat, "go");
  assert.match(system(model.requests[0].body), /You HOST\.[^]*<skill-context name="greeting">[^]*PINEAPPLE/);
  assert.equal(model.requests[0].body.model, "other-model");
  assert.equal((await event(events, "skill.invoked")).data.trigger, "context-load");
  await assert.rejects(session(client, { ...config, agent: "nobody" }), /nobody/);
  const { session: again } = await resume(client, chat.sessionId, config);
  assert.equal((await again.rpc.agent.getCurrent()).agent.name, "host", "the choice outlives the session's life in memory");
});

test("tools can be hidden from the session's own agent and left to one that names them", async ({ t, start }) => {
  const model = await modelServer(t, (body) => {
    if (/SPY/.test(system(body))) return { content: toolNames(body).join() };
    return toolResult(body) ? { content: toolResult(body) } : toolCall("task", { agent_type: "spy", name: "look", description: "Looks", prompt: "look" });
  });
  const secret = { name: "secret_tool", description: "hush", parameters: { type: "object", properties: {} }, handler: () => "" };
  const { session: chat } = await session(start(), {
    ...server(model),
    tools: [secret],
    defaultAgent: { excludedTools: ["secret_tool"] },
    customAgents: [{ name: "spy", prompt: "You are a SPY.", tools: ["secret_tool"] }],
  });
  assert.equal(await ask(chat, "go"), "secret_tool");
  assert.ok(!toolNames(model.requests[0].body).includes("secret_tool"));
});

test("a sub-agent works with a context of its own, and its events say whose they are", async ({ t, start, home, work }) => {
  await writeFile(join(work, "a.txt"), "deep water");
  const model = await modelServer(t, (body) => {
    const text = textOf(body.messages.find((message) => message.role === "user"));
    if (text.endsWith("Read a.txt.")) {
      return toolResult(body) ? { content: "It says: deep water" } : toolCall("view", { path: join(work, "a.txt") }, "inner");
    }
    if (toolResult(body)) return { content: `I heard: ${toolResult(body)}` };
    return toolCall("task", { agent_type: "explore", name: "reader", description: "Reading a file", prompt: "Read a.txt." }, "outer");
  });
  const { session: chat, events } = await session(start(), server(model));
  assert.equal(await ask(chat, "find out"), "I heard: It says: deep water");
  const started = await event(events, "subagent.started");
  assert.equal(started.agentId, "outer");
  assert.equal(started.data.toolCallId, "outer");
  assert.equal(started.data.agentName, "explore");
  assert.equal(started.data.agentDisplayName, "Explore Agent");
  assert.ok(started.data.agentDescription);
  assert.equal(started.data.model, "test-model");
  const done = await event(events, "subagent.completed");
  assert.equal(done.data.toolCallId, "outer");
  assert.equal(done.data.totalToolCalls, 1);
  assert.equal(done.data.totalTokens, 36, "two calls of 18 tokens");
  const inner = events.filter((event) => event.agentId === "outer").map((event) => event.type);
  for (const type of ["user.message", "assistant.turn_start", "assistant.message", "tool.execution_start", "tool.execution_complete", "assistant.turn_end"]) {
    assert.ok(inner.includes(type), `${type} of the sub-agent`);
  }
  for (const { agentId, data, type } of events.filter(({ type }) => /^(tool\.execution_(start|complete)|assistant\.(message|usage))$/.test(type))) {
    assert.equal(data.parentToolCallId, agentId, type);
  }
  assert.ok(!toolNames(model.requests[1].body).includes("edit"), "explore only looks");
  assert.deepEqual(model.requests[1].body.messages.map(({ role }) => role), ["system", "user"]);
  const metrics = await chat.rpc.usage.getMetrics();
  assert.equal(metrics.modelMetrics["test-model"].requests.count, 4, "its calls count");
  assert.equal(metrics.modelMetrics["test-model"].usage.inputTokens, 44);
  checkChain(events);
  const kept = await log(home, chat.sessionId);
  assert.ok(kept.some(({ type, agentId }) => type === "assistant.message" && agentId === "outer"));
  assert.equal(types(events).filter((type) => type === "session.idle").length, 1);
  assert.deepEqual((await chat.rpc.tasks.list()).tasks, []);
});

test("several sub-agents run side by side", async ({ start }) => {
  const { session: chat, events } = await session(start());
  const task = (name) => `task {"agent_type":"task","name":"${name}","description":"d","prompt":"wait 300 ms then say ${name}"}`;
  assert.match(await ask(chat, `call ${task("one")} and ${task("two")} then describe the request`), /I was sent/);
  const order = events.filter(({ type }) => /^subagent\.(started|completed)$/.test(type)).map(({ type }) => type);
  assert.deepEqual(order, ["subagent.started", "subagent.started", "subagent.completed", "subagent.completed"]);
});

test("one in the background leaves the turn, keeps the session from idle, and has the model told", async ({ t, start }) => {
  let release;
  const held = new Promise((go) => (release = go));
  const model = await modelServer(t, async (body) => {
    const said = lastUser(body);
    if (said.endsWith("Work hard.")) return held.then(() => ({ content: "hard work done" }));
    if (/<system_notification>/.test(said)) {
      const read = toolResult(body);
      return read?.startsWith("Agent completed") ? { content: `Told: ${read.split("\n\n").at(-1)}` } : toolCall("read_agent", { agent_id: "worker", wait: true }, "read");
    }
    return toolResult(body)
      ? { content: "I wait." }
      : toolCall("task", { agent_type: "general-purpose", name: "worker", description: "Working", prompt: "Work hard.", mode: "background" }, "spawn");
  });
  const { session: chat, events } = await session(start(), server(model));
  const answered = ask(chat, "delegate");
  await event(events, "assistant.message", ({ data }) => data.content === "I wait.");
  await event(events, "assistant.idle");
  assert.equal(ofType(events, "session.idle").length, 0, "the session is not idle");
  const { tasks } = await chat.rpc.tasks.list();
  assert.equal(tasks.length, 1);
  const { id, agentType, status, executionMode, canPromoteToBackground, description, prompt, toolCallId, type } = tasks[0];
  assert.deepEqual(
    { id, agentType, status, executionMode, canPromoteToBackground, description, prompt, toolCallId, type },
    { id: "worker", agentType: "general-purpose", status: "running", executionMode: "background", canPromoteToBackground: false, description: "Working", prompt: "Work hard.", toolCallId: "spawn", type: "agent" },
  );
  const spawned = await event(events, "tool.execution_complete");
  assert.match(spawned.data.result.content, /^Agent started in background with agent_id: worker\. You'll be notified/);
  release();
  assert.equal(await answered, "Told: hard work done");
  const notice = await event(events, "system.notification");
  assert.equal(
    notice.data.content,
    '<system_notification>\nAgent "worker" (general-purpose) has completed successfully. Use read_agent with agent_id "worker" to retrieve the full results.\n</system_notification>',
  );
  assert.equal(notice.data.kind.type, "agent_completed");
  assert.equal(notice.data.kind.agentId, "worker");
  assert.equal(notice.data.kind.status, "completed");
  const read = events.find(({ type, data }) => type === "tool.execution_complete" && data.toolCallId === "read");
  assert.match(read.data.result.content, /^Agent completed\. agent_id: worker, agent_type: general-purpose, status: completed, description: Working, elapsed: \d+s, total_turns: 0, duration: \d+s\n\nhard work done$/);
  assert.ok(types(events).includes("session.background_tasks_changed"));
  assert.equal((await event(events, "subagent.completed")).agentId, "worker");
  assert.equal((await chat.rpc.tasks.list()).tasks[0].status, "completed");
  assert.equal((await chat.rpc.tasks.remove({ id: "worker" })).removed, true);
  assert.deepEqual((await chat.rpc.tasks.list()).tasks, []);
});

test("a client can start, watch, steer, stop and forget sub-agents", async ({ start }) => {
  const { session: chat, events } = await session(start());
  const { agentId } = await chat.rpc.tasks.startAgent({ agentType: "general-purpose", prompt: "say done", name: "sdk task", description: "From outside" });
  assert.equal(agentId, "sdk-task");
  await event(events, "subagent.completed", ({ agentId: id }) => id === agentId);
  await event(events, "session.idle");
  const [task] = (await chat.rpc.tasks.list()).tasks;
  assert.equal(task.result, "done");
  assert.equal(task.resolvedModel, "rehearsal");
  await assert.rejects(chat.rpc.tasks.startAgent({ agentType: "missing", prompt: "x", name: "y" }), /Unknown agent type: missing\. Valid types: explore, task, general-purpose, rubber-duck, code-review/);
  const long = await chat.rpc.tasks.startAgent({ agentType: "task", prompt: 'call bash {"command":"sleep 60"}', name: "long" });
  await event(events, "tool.execution_start", ({ agentId }) => agentId === long.agentId);
  const { progress } = await chat.rpc.tasks.getProgress({ id: long.agentId });
  assert.equal(progress.recentActivity.at(-1).message, "▸ bash");
  assert.deepEqual(await chat.rpc.tasks.sendMessage({ id: long.agentId, message: "hurry" }), { sent: true });
  assert.equal((await chat.rpc.tasks.remove({ id: long.agentId })).removed, false, "it runs");
  assert.equal((await chat.rpc.tasks.cancel({ id: long.agentId })).cancelled, true);
  const ended = await event(events, "subagent.completed", ({ agentId }) => agentId === long.agentId);
  assert.equal(ended.data.cancelled, true);
  const open = events.find(({ type, agentId }) => type === "tool.execution_complete" && agentId === long.agentId);
  assert.equal(open.data.success, false, "its open call has a result");
  assert.equal((await chat.rpc.tasks.cancel({ id: long.agentId })).cancelled, false);
  await chat.rpc.tasks.waitForPending();
  for (const [method, params, expected] of [
    ["getProgress", { id: "nobody" }, { progress: null }],
    ["promoteToBackground", { id: "nobody" }, { promoted: false }],
    ["getCurrentPromotable", undefined, {}],
    ["promoteCurrentToBackground", undefined, {}],
    ["cancel", { id: "nobody" }, { cancelled: false }],
    ["refresh", undefined, {}],
    ["sendMessage", { id: "nobody", message: "x" }, { sent: false, error: "Agent not found or not accepting messages" }],
  ]) {
    assert.deepEqual(await chat.rpc.tasks[method](params), expected, method);
  }
});

test("a sub-agent that a turn waits for can be put in the background", async ({ start }) => {
  const { session: chat, events } = await session(start());
  const sent = ask(chat, 'call task {"agent_type":"task","name":"slow","description":"d","prompt":"wait 1 s then say slept"} then say I went on');
  await event(events, "subagent.started");
  const task = await until("it can be promoted", async () => (await chat.rpc.tasks.getCurrentPromotable()).task);
  assert.equal(task.executionMode, "sync");
  assert.equal((await chat.rpc.tasks.promoteCurrentToBackground()).task.executionMode, "background");
  await event(events, "assistant.message", ({ data }) => data.content === "I went on");
  await sent;
  assert.ok(types(events).indexOf("system.notification") > types(events).indexOf("subagent.completed"));
});

test("questions of a sub-agent reach the person, and an abort reaches the sub-agent", async ({ start }) => {
  const asked = [];
  const { session: chat, events } = await session(start(), {
    onPermissionRequest: (request) => (asked.push(request), { kind: "approve-once" }),
  });
  const task = (command) => `call task {"agent_type":"task","name":"t","description":"d","prompt":"call bash {\\"command\\":\\"${command}\\"}"}`;
  await ask(chat, task("touch made"));
  assert.equal(asked[0].kind, "shell");
  assert.equal(ofType(events, "permission.requested")[0].agentId, ofType(events, "subagent.started")[0].agentId);
  await chat.send({ prompt: task("sleep 60") });
  const inner = await event(events, "tool.execution_start", ({ data, agentId }) => agentId && /sleep/.test(JSON.stringify(data.arguments)));
  await chat.abort();
  const idle = await event(events, "session.idle", ({ data }) => data.aborted);
  const before = events.slice(0, events.indexOf(idle));
  assert.ok(before.some(({ type, data }) => type === "subagent.completed" && data.cancelled));
  for (const id of [inner.data.toolCallId, inner.agentId]) {
    assert.equal(before.filter(({ type, data }) => type === "tool.execution_complete" && data.toolCallId === id).length, 1);
  }
  assert.equal(await ask(chat, "say still here"), "still here");
});

test("hooks see what sub-agents do, and can tell it from what the session's own agent does", async ({ start }) => {
  const seen = [];
  const { session: chat, events } = await session(start(), {
    hooks: { onPreToolUse: (input) => void seen.push([input.toolName, input.sessionId]) },
  });
  await ask(chat, 'call task {"agent_type":"task","name":"t","description":"d","prompt":"call bash {\\"command\\":\\"true\\"}"}');
  const { agentId } = await event(events, "subagent.started");
  assert.deepEqual(seen, [["task", chat.sessionId], ["bash", agentId]]);
  const inner = events.find(({ type, data }) => type === "hook.start" && data.hookType === "preToolUse" && data.input.toolName === "bash");
  assert.equal(inner.data.parentToolCallId, agentId);
});

test("deltas of sub-agents can be left out", async ({ start }) => {
  const { session: chat, events } = await session(start(), { streaming: true, includeSubAgentStreamingEvents: false });
  await ask(chat, 'call task {"agent_type":"task","name":"t","description":"d","prompt":"stream 20 chunks"} then stream 5 chunks');
  assert.ok(events.some(({ type, agentId }) => type === "assistant.message" && agentId));
  assert.ok(!events.some(({ type, agentId }) => type === "assistant.message_delta" && agentId));
  assert.ok(events.some(({ type, agentId }) => type === "assistant.message_delta" && !agentId));
});

test("what lies in files is found when discovery is asked for", async ({ start, work }) => {
  await mkdir(join(work, ".github", "agents"), { recursive: true });
  await mkdir(join(work, ".github", "skills", "s"), { recursive: true });
  await writeFile(join(work, ".github", "agents", "docs.agent.md"), "---\ndescription: Writes docs\ntools: ['read', 'edit']\n---\nYou write docs.\n");
  await writeFile(join(work, ".github", "skills", "s", "SKILL.md"), "---\nname: s\ndescription: d\n---\nx\n");
  const client = start();
  const { session: without } = await session(client);
  assert.deepEqual((await without.rpc.agent.list()).agents, []);
  assert.deepEqual((await without.rpc.skills.list()).skills, []);
  const { session: chat } = await session(client, { enableConfigDiscovery: true });
  const [agent] = (await chat.rpc.agent.list()).agents;
  assert.equal(agent.name, "docs");
  assert.equal(agent.source, "project");
  assert.equal((await chat.rpc.skills.list()).skills[0].source, "project");
  await chat.rpc.agent.select({ name: "docs" });
  const tools = (await chat.rpc.tools.getCurrentMetadata()).tools.map(({ name }) => name);
  assert.deepEqual(tools.sort(), ["create", "edit", "view"]);
  const found = await client.rpc.agents.discover({ projectPaths: [work], excludeHostAgents: true });
  assert.equal(found.agents[0].name, "docs");
  const { paths } = await client.rpc.skills.getDiscoveryPaths({ projectPaths: [work], excludeHostSkills: true });
  assert.deepEqual(paths[0], { path: join(work, ".github/skills"), scope: "project", preferredForCreation: true, projectPath: work });
  await client.rpc.skills.config.setDisabledSkills({ disabledSkills: ["s"] });
  const { skills } = await client.rpc.skills.discover({ projectPaths: [work], excludeHostSkills: true });
  assert.equal(skills[0].enabled, false);
  await client.rpc.skills.config.setDisabledSkills({ disabledSkills: [] });
});

test("sub-agents have bounds of depth and number, and models of their own", async ({ t, start }) => {
  const { session: chat, events } = await session(start());
  await chat.rpc.tools.updateSubagentSettings({ subagents: { maxConcurrency: 1, maxDepth: 1, agents: { task: { effortLevel: "low" } } } });
  const task = (name, prompt) => `task {"agent_type":"task","name":"${name}","description":"d","prompt":"${prompt}"}`;
  await ask(chat, `call ${task("a", "wait 500 ms then describe the request")} and ${task("b", "say b")}`);
  const [one, two] = ofType(events, "tool.execution_complete").sort((a) => (a.data.success ? -1 : 1));
  assert.match(one.data.result.content, /reasoning effort low/);
  assert.doesNotMatch(one.data.result.content, /\btask\b/, "no deeper ones");
  assert.match(two.data.error.message, /1 agents are already running/);
  assert.equal(ofType(events, "subagent.configured")[0].data.reasoningEffort, "low");
});
