// Apps that start the program by its path while a host runs on the same home: their sessions are live in that host.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { RuntimeConnection, ask, environment, event, lodge, resume, session, test, until } from "./help.mjs";

/** The host of a home, as a person starts it. */
async function host(t, home, more = {}) {
  const child = spawn(lodge, ["--port", "0", "--sdk-port", "0"], {
    cwd: join(home, ".."),
    env: environment({ LODGE_HOME: home, ...more }),
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => child.kill("SIGKILL"));
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.includes("Ctrl-C stops")) return child;
  }
  throw new Error("the host ended before it was ready");
}

/** An AHP client at a session: what it shows, as it comes. */
function watch(t, home, id) {
  const child = spawn(lodge, ["attach", id], {
    env: environment({ LODGE_HOME: home, TERM: "dumb" }),
    stdio: ["pipe", "pipe", "inherit"],
  });
  t.after(() => child.kill("SIGKILL"));
  const seen = { text: "" };
  child.stdout.on("data", (bytes) => (seen.text += bytes));
  return seen;
}

/** All that is kept in a home. */
async function kept(home) {
  const files = await readdir(home, { recursive: true, withFileTypes: true });
  const texts = files.filter((file) => file.isFile()).map((file) => readFile(join(file.parentPath, file.name), "latin1"));
  return (await Promise.all(texts)).join("\n");
}

test("two apps at once hand their connections on to the running host, each with its own environment", async ({ t, start, home, work }) => {
  await host(t, home, { WHOSE: "the host's" });
  const app = (whose) => start({ env: environment({ WHOSE: whose, A_SECRET: `secret of ${whose}` }) });
  const chats = await Promise.all(["one", "two"].map((whose) => session(app(whose))));
  const said = await Promise.all(
    chats.map(({ session: chat }) => ask(chat, `call bash {"command":"echo $WHOSE in $PWD"}`)),
  );
  for (const [at, whose] of ["one", "two"].entries()) {
    assert.ok(said[at].includes(`${whose} in ${work}`), said[at]);
  }
  // Both know both sessions, and so does everybody else, live.
  const [one, two] = chats.map(({ session: chat }) => chat.sessionId);
  const third = app("three");
  await third.start();
  const listed = (await third.listSessions()).map((entry) => entry.sessionId).sort();
  assert.deepEqual(listed, [one, two].sort());
  const seen = watch(t, home, one);
  await until("the past is shown", () => seen.text.includes("echo $WHOSE"));
  await ask(chats[0].session, "say this is live");
  await until("it is shown", () => seen.text.includes("this is live"));
  const everything = await kept(home);
  assert.ok(everything.includes("this is live"));
  assert.ok(!everything.includes("secret of"), "the environment is kept nowhere");
});

test("an app takes up a session that was left, with its own environment", async ({ t, start, home }) => {
  await host(t, home);
  const first = start({ env: environment({ WHOSE: "first" }) });
  const { session: chat } = await session(first);
  assert.ok((await ask(chat, `call bash {"command":"echo $WHOSE"}`)).includes("first"));
  await first.stop();
  const { session: again } = await resume(start({ env: environment({ WHOSE: "second" }) }), chat.sessionId);
  assert.ok((await ask(again, `call bash {"command":"echo $WHOSE"}`)).includes("second"));
});

test("an app that wants a port of its own gets one, with its own token, into the running host", async ({ t, start, home }) => {
  await host(t, home);
  const client = start({ connection: RuntimeConnection.forTcp({ path: lodge }) });
  const { session: chat } = await session(client);
  assert.equal(await ask(chat, "say over TCP"), "over TCP");
  const other = start();
  await other.start();
  assert.ok((await other.listSessions()).some((entry) => entry.sessionId === chat.sessionId));
});

test("the program of an app whose host is killed ends and says why", async ({ t, start, home }) => {
  const running = await host(t, home);
  const program = spawn(lodge, ["--headless", "--no-auto-update", "--stdio"], {
    env: environment({ COPILOT_HOME: home }),
    stdio: ["pipe", "pipe", "pipe"],
  });
  t.after(() => program.kill("SIGKILL"));
  const ping = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping", params: {} });
  program.stdin.write(`Content-Length: ${ping.length}\r\n\r\n${ping}`);
  await once(program.stdout, "data");
  const { session: chat, events } = await session(start());
  await chat.send({ prompt: "wait 600000 ms then say too late" });
  await event(events, "user.message");
  let said = "";
  program.stderr.on("data", (bytes) => (said += bytes));
  running.kill("SIGKILL");
  const [code] = await once(program, "close");
  assert.equal(code, 1);
  assert.match(said, /The host on .* stopped/);
  // The next app has a host of its own and goes on with the session.
  const { session: again } = await resume(start(), chat.sessionId);
  assert.equal(await ask(again, "say still here"), "still here");
});
