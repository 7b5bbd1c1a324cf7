// VS Code's own client: automations, and a host that is killed in the middle of a run.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { AUTOMATION_CATALOG_URI, StateComponents } from "@codingame/monaco-vscode-api/vscode/vs/platform/agentHost/common/state/sessionState";

import { until } from "./help.mjs";
import { URI, generateUuid, test, texts } from "./vscode.mjs";

const view = (window, kind, uri) => window.client.getSubscription(kind, URI.parse(uri), "test").object;

/** What a window shows of all automations. */
function catalogue(window) {
  const all = view(window, StateComponents.AutomationCatalog, AUTOMATION_CATALOG_URI);
  const say = (action) => window.client.dispatch(AUTOMATION_CATALOG_URI, action);
  return {
    say,
    get entries() {
      return all.verifiedValue?.entries;
    },
    entry: (resource, fits = () => true) =>
      until(`${resource} is shown`, () => all.verifiedValue?.entries.find((entry) => entry.resource === resource && fits(entry))),
    create: (resource, text, more = {}) =>
      say({
        type: "automation/createRequested",
        resource,
        definition: {
          title: "Tidy up",
          message: { text, origin: { kind: "automation" } },
          session: { provider: "lodge", config: { autoApprove: "autoApprove", mode: "interactive" } },
          enabled: true,
          triggers: [],
          ...more,
        },
      }),
    run: async (automation, requestId = generateUuid()) =>
      (await window.client.runAutomation({ channel: AUTOMATION_CATALOG_URI, automation, requestId })).resource,
  };
}

const newest = (status) => ({ runs }) => runs[0]?.lifecycle.status === status;

test("automations are made in one window, run from another and seen in both", async ({ window }) => {
  const [one, two] = [await window(), await window()];
  assert.deepEqual(one.heard[0].result.automations, {
    create: {},
    schedules: {},
    runCancellation: {},
    runHistoryLimit: 50,
  });
  const [here, there] = [catalogue(one), catalogue(two)];
  const resource = `ahp-automation:/${generateUuid()}`;
  const yearly = { kind: "schedule", id: "yearly", schedule: { expression: "0 0 29 FEB *", timeZone: "Europe/Berlin" } };
  here.create(resource, "say tidied", { triggers: [yearly] });
  const entry = await there.entry(resource);
  assert.deepEqual(entry.operations, ["update", "remove", "run"]);
  assert.match(entry.nextRunAt, /^20\d\d-02-28T23:00:00\.000Z$/);
  const { items } = await two.client.listAutomationTriggerDefinitions({ channel: "ahp-root://" });
  assert.deepEqual(items, []);
  const run = await there.run(resource);
  const done = (await here.entry(resource, newest("completed"))).runs[0];
  assert.equal(done.resource, run);
  const state = view(one, StateComponents.AutomationRun, run);
  await until("the run is shown", () => state.verifiedValue?.lifecycle.status === "completed");
  assert.deepEqual(state.verifiedValue.sessions, [done.primarySession]);
  const chat = one.look(URI.parse(done.primarySession));
  await until("its session is shown", () => chat.shown?.turns.length === 1 && chat.about);
  assert.deepEqual(chat.about.origin, { kind: "automation", automation: resource, run });
  assert.equal(chat.shown.turns[0].message.origin.kind, "automation");
  assert.equal(texts(chat.shown.turns[0]), "tidied");
  there.say({ type: "automation/updateRequested", resource, changes: { title: "Tidied" } });
  await here.entry(resource, ({ definition }) => definition.title === "Tidied");
  here.say({ type: "automation/removed", resource });
  await until("it is gone in both", () => [here, there].every(({ entries }) => entries.length === 0));
  assert.deepEqual([...one.warnings, ...two.warnings], []);
});

test("a host that is killed in the middle of a run says so and runs nothing twice", async ({ window, work, host }) => {
  const one = await window();
  const here = catalogue(one);
  const resource = `ahp-automation:/${generateUuid()}`;
  here.create(resource, 'call bash {"command":"echo once >> runs"} then wait 60000 ms');
  await here.entry(resource);
  const run = await here.run(resource, "key");
  const { primarySession } = (await here.entry(resource, newest("running"))).runs[0];
  const chat = one.look(URI.parse(primarySession));
  await until("it is in the middle", () =>
    chat.shown?.activeTurn?.responseParts.some(({ toolCall }) => toolCall?.status === "completed"));
  await host.kill();
  await until("it is noticed", () => one.client.connectionState === "reconnecting");
  await host.restart();
  await until("it is back", () => one.client.connectionState === "connected");
  const failed = (await here.entry(resource, newest("failed"))).runs[0];
  assert.equal(failed.resource, run);
  assert.equal(failed.lifecycle.error.errorType, "interrupted");
  assert.equal(await here.run(resource, "key"), run, "the key stands for the run that failed");
  assert.equal((await here.entry(resource)).runs.length, 1);
  assert.equal(await readFile(join(work, "runs"), "utf8"), "once\n");
});
