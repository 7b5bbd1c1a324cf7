// Lodge behind the Copilot SDK for Node: five small things an app does.
//
//   npm install @github/copilot-sdk
//   LODGE_BIN=/path/to/lodge node app.mjs
//
// No key and no network are needed: the prompts below are for the built-in rehearsal model, which does what it is told
// in plain words (docs/rehearsal.md). With a real model, ask in your own words.

import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { CopilotClient, RuntimeConnection, approveAll, defineTool } from "@github/copilot-sdk";

const lodge = process.env.LODGE_BIN ?? "lodge";
const baseDirectory = mkdtempSync(join(tmpdir(), "lodge-example-"));

async function streamAnAnswer(client) {
  const session = await client.createSession({ onPermissionRequest: approveAll, streaming: true });
  let text = "";
  session.on("assistant.message_delta", (event) => (text += event.data.deltaContent));
  await session.sendAndWait("say streamed word by word");
  console.log(`stream: ${text}`);
}

async function callOurTool(client) {
  const weather = defineTool("weather", {
    description: "The weather in a city",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    handler: ({ city }) => `21 degrees in ${city}`,
  });
  const session = await client.createSession({ onPermissionRequest: approveAll, tools: [weather] });
  const answer = await session.sendAndWait('call weather {"city":"Oslo"}');
  console.log(`tool: ${answer.data.content}`);
}

async function askForPermission(client) {
  const onPermissionRequest = (request) => {
    console.log(`permission: may it run \`${request.fullCommandText}\`? yes`);
    return { kind: "approve-once" };
  };
  const session = await client.createSession({ onPermissionRequest });
  const answer = await session.sendAndWait('call bash {"command":"touch made && echo allowed"}');
  console.log(`permission: ${answer.data.content}`);
}

/** A host of its own, which any number of clients can reach by its address. */
async function startHost() {
  const child = spawn(lodge, ["--headless", "--port", "0"], {
    env: { ...process.env, COPILOT_HOME: baseDirectory },
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const port = /listening on port (\d+)/.exec(line)?.[1];
    if (port) return { child, url: `127.0.0.1:${port}` };
  }
  throw new Error("the host did not start");
}

const connect = (url) => new CopilotClient({ connection: RuntimeConnection.forUri(url) });

async function killTheHostAndResume() {
  const host = await startHost();
  const client = connect(host.url);
  const session = await client.createSession({ onPermissionRequest: approveAll, streaming: true });
  const seen = [];
  session.on((event) => event.ephemeral || seen.push(event.id));
  const midTurn = new Promise((go) => session.on("assistant.message_delta", go));
  await session.send('call bash {"command":"echo hello"} then slowly 2 ms, stream 2000 chunks');
  await midTurn;
  host.child.kill("SIGKILL");
  await client.forceStop();

  const next = await startHost();
  const again = connect(next.url);
  const resumed = await again.resumeSession(session.sessionId, { onPermissionRequest: approveAll });
  const kept = new Set((await resumed.getEvents()).map((event) => event.id));
  const lost = seen.filter((id) => !kept.has(id));
  const answer = await resumed.sendAndWait("say and on it goes");
  console.log(`resume: ${lost.length} events lost; ${answer.data.content}`);
  await again.stop();
  next.child.kill();
}

async function twoClients() {
  const host = await startHost();
  const [one, two] = [connect(host.url), connect(host.url)];
  const mine = await one.createSession({ onPermissionRequest: approveAll });
  const yours = await two.resumeSession(mine.sessionId, { onPermissionRequest: approveAll });
  const heard = new Promise((go) => yours.on("assistant.message", (event) => go(event.data.content)));
  await mine.sendAndWait("say hello to both of you");
  console.log(`two clients: the other one heard "${await heard}"`);
  await one.stop();
  await two.stop();
  host.child.kill();
}

const client = new CopilotClient({ connection: RuntimeConnection.forStdio({ path: lodge }), baseDirectory });
await streamAnAnswer(client);
await callOurTool(client);
await askForPermission(client);
await client.stop();
await killTheHostAndResume();
await twoClients();
