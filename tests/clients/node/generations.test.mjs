// Apps on older releases of the SDK. Its releases have no parser, so what they do with events is what apps do.

import assert from "node:assert/strict";
import { access } from "node:fs/promises";
import { join } from "node:path";

import { environment, lodge, test } from "./help.mjs";

const matrix = new URL("../../../target/clients/matrix/", import.meta.url);

for (const version of ["0.1.32", "0.3.0"]) {
  test(`an app on ${version} has a turn with tools and permissions, and takes its session up again`, async ({ t, home, work }) => {
    const sdk = new URL(`node-${version}/package/dist/index.js`, matrix);
    await access(sdk).catch(() => assert.fail(`${version} is not installed: run \`cargo xtask clients\``));
    const { CopilotClient } = await import(sdk);
    const client = new CopilotClient({ cliPath: lodge, cwd: work, env: environment({ COPILOT_HOME: home }), autoStart: false });
    t.after(() => client.forceStop());
    await client.start();
    const [asked, events] = [[], []];
    const onPermissionRequest = ({ kind }) => {
      asked.push(kind);
      return { kind: "approved" };
    };
    const mine = { name: "mine", description: "d", parameters: { type: "object", properties: {} }, handler: () => "from my tool" };
    const chat = await client.createSession({ streaming: true, onPermissionRequest, tools: [mine] });
    chat.on((event) => events.push(event));
    const touch = JSON.stringify({ command: `touch ${join(work, "made")}` });
    const answer = await chat.sendAndWait({ prompt: `call bash ${touch} then call mine {} then say the end` }, 30_000);
    assert.equal(answer.data.content, "the end");
    assert.deepEqual(asked, ["shell", "custom-tool"]);
    const results = events.filter(({ type }) => type === "tool.execution_complete");
    assert.deepEqual(results.map(({ data }) => data.success), [true, true]);
    assert.ok(events.some(({ type }) => type === "assistant.message_delta"));
    const kept = await chat.getMessages();
    assert.equal(kept.filter(({ type }) => type === "tool.execution_complete").length, 2);
    await chat.disconnect();
    const again = await client.resumeSession(chat.sessionId, { onPermissionRequest });
    assert.equal((await again.sendAndWait({ prompt: "say again" }, 30_000)).data.content, "again");
  });
}
