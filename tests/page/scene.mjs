// What the page's picture in the README shows, on the real program: a question about a change.
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { begin, Host, idle, open } from "./lib.mjs";

const call = (id, name, given) => ({ tool_calls: [{ index: 0, id, type: "function", function: { name, arguments: JSON.stringify(given) } }] });
const CODE = 'def greet(name):\n    return f"Hello, {name}!"\n';
const EDIT = {
  path: "greet.py",
  old_str: CODE.trimEnd(),
  new_str: 'def greet(name, hour):\n    part = "morning" if hour < 12 else "evening"\n    return f"Good {part}, {name}!"',
};

/** A model that plays its part: one list of deltas for each request. */
async function model(script) {
  const server = createServer((request, response) => {
    request.resume();
    if (request.method === "GET") return response.setHeader("content-type", "application/json").end('{"data":[{"id":"your-model"}]}');
    const deltas = script.shift() ?? [{ content: "Done." }];
    response.setHeader("content-type", "text/event-stream");
    const finish = deltas.some((delta) => delta.tool_calls) ? "tool_calls" : "stop";
    const choices = [...deltas.map((delta) => ({ index: 0, delta })), { index: 0, delta: {}, finish_reason: finish }];
    for (const choice of choices) response.write(`data: ${JSON.stringify({ id: "1", model: "your-model", choices: [choice] })}\n\n`);
    response.end("data: [DONE]\n\n");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

/** Opens the page at the question. `end` answers it and stops everything. */
export async function question() {
  const server = await model([
    [{ content: "I look at the code first." }, call("1", "view", { path: "greet.py" })],
    [{ content: "The greeting is one line. I change it." }, call("2", "edit", EDIT)],
  ]);
  process.env.LODGE_PROVIDER_BASE_URL = `http://127.0.0.1:${server.address().port}/v1`;
  process.env.LODGE_MODEL = "your-model";
  const host = await Host.start({ directory: "greetings", prepare: ({ work }) => writeFileSync(join(work, "greet.py"), CODE) });
  const page = await open(host, { colorScheme: "dark", deviceScaleFactor: 1.5, viewport: { width: 1120, height: 740 } });
  await begin(page, "Greet people by the time of day");
  await page.getByRole("button", { name: "Allow once" }).waitFor();
  const end = async () => {
    await page.getByRole("button", { name: "Allow once" }).click();
    await idle(page);
    await host.stop();
    server.close();
  };
  return { host, page, end };
}

/** The words on the page, without what differs from run to run: directories, tokens and times. */
export async function words({ host, page }) {
  const text = await page.evaluate(() => document.body.innerText);
  const steady = text.replaceAll(host.root, "…").replace(/\d([\d.,]*\d)?/g, "N");
  const lines = steady.split("\n").map((line) => line.trim());
  return `${lines.filter((line) => line).join("\n")}\n`;
}
