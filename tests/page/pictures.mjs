// Draws the page's picture for the README, from the real program: `cargo xtask pictures` runs this.
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { argv } from "node:process";
import { begin, closeBrowser, closePages, Host, idle, open } from "./lib.mjs";

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
const to = argv[2];
mkdirSync(to, { recursive: true });
await page.screenshot({ path: join(to, "page.png") });
await page.getByRole("button", { name: "Allow once" }).click();
await idle(page);
await closePages();
await closeBrowser();
await host.stop();
server.close();
