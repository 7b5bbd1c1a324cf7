// What every test of the page needs: a real host, a real Chromium, and a page that complains about nothing.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { chromium } from "playwright-core";
import { executable } from "./browser.mjs";

const run = promisify(execFile);
const BIN = process.env.LODGE_BIN ?? "lodge";
const SHOTS = process.env.LODGE_SHOTS;
/** A built page to test in place of the program's own, while one works on it: no program has to be built for that. */
const PAGE = process.env.LODGE_PAGE;

export const DESKTOP = { viewport: { width: 1280, height: 800 } };
export const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

let shared;
export async function browser() {
  shared ??= chromium.launch({
    executablePath: await executable(),
    // Tests of a page of our own need no sandbox, and containers seldom allow one.
    args: ["--no-sandbox", "--disable-dev-shm-usage"],
  });
  return shared;
}

export async function closeBrowser() {
  await (await shared)?.close();
}

/** A host with a home and a directory of its own. */
export class Host {
  static async start(options = {}) {
    const host = new Host();
    host.root = mkdtempSync(join(tmpdir(), "lodge-page-"));
    host.home = join(host.root, "home");
    host.work = join(host.root, options.directory ?? "work");
    mkdirSync(host.home);
    mkdirSync(host.work);
    await options.prepare?.(host);
    await host.begin("0");
    return host;
  }

  async begin(port) {
    this.process = spawn(BIN, ["--home", this.home, "--port", port, "--sdk-port", "0"], {
      cwd: this.work,
      env: { ...process.env, SHELL: "/bin/bash" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    // The runner may end this process before a test has cleaned up.
    const { process: child } = this;
    process.once("exit", () => child.kill("SIGKILL"));
    let out = "";
    let err = "";
    this.process.stderr.on("data", (data) => (err += data));
    this.address = await new Promise((resolve, reject) => {
      this.process.once("exit", (code) => reject(new Error(`the host ended with ${code}: ${err}`)));
      this.process.stdout.on("data", (data) => {
        out += data;
        const found = /wss?:\/\/([0-9.]+:\d+)\//.exec(out);
        if (found && out.includes("Ctrl-C")) resolve(found[1]);
      });
    });
  }

  get url() {
    return `http://${this.address}/`;
  }

  /** Ends the host without a word, as a power cut would. */
  async kill() {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGKILL");
    await ended;
  }

  /** Starts it again where it was. */
  async restart() {
    await this.begin(this.address.split(":")[1]);
  }

  async stop() {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      const ended = new Promise((resolve) => this.process.once("exit", resolve));
      this.process.kill("SIGTERM");
      await ended;
    }
    rmSync(this.root, { recursive: true, force: true, maxRetries: 5 });
  }

  async lodge(...args) {
    const { stdout } = await run(BIN, ["--home", this.home, ...args], { cwd: this.work });
    return stdout;
  }

  /** A terminal at a session of this host. */
  attach(session) {
    const child = spawn(BIN, ["--home", this.home, "attach", session], { cwd: this.work, stdio: ["pipe", "pipe", "pipe"] });
    let seen = "";
    child.stdout.on("data", (data) => (seen += data));
    child.stderr.on("data", (data) => (seen += data));
    return {
      see: (text) => until(`${text} in the terminal, which shows: ${seen}`, () => seen.includes(text)),
      type: (text) => child.stdin.write(text),
      end: () =>
        new Promise((resolve) => {
          child.once("exit", resolve);
          child.kill();
        }),
    };
  }

  async link(...args) {
    const said = await this.lodge("pair", ...args);
    const found = /https?:\/\/\S+\/pair#[\w-]+/.exec(said);
    assert.ok(found, `lodge pair printed no link: ${said}`);
    return found[0];
  }
}

const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css", svg: "image/svg+xml", png: "image/png", webmanifest: "application/manifest+json" };

/** Serves the files of `LODGE_PAGE`, with the policy of the host's own. */
async function replaceFiles(context, host) {
  const own = await fetch(host.url, { headers: { "accept-encoding": "gzip" } });
  const headers = Object.fromEntries([...own.headers].filter(([name]) => !/^(?:content-(?!security)|etag|vary|cache|date|transfer)/.test(name)));
  await context.route(
    (url) => url.host === host.address,
    async (route) => {
      const { pathname } = new URL(route.request().url());
      const name = pathname === "/" || pathname === "/pair" ? "index.html" : pathname.slice(1);
      const path = join(PAGE, name);
      if (route.request().method() !== "GET" || !existsSync(path)) return route.continue();
      await route.fulfill({ headers: { ...headers, "content-type": TYPES[name.split(".").pop()] }, body: readFileSync(path) });
    },
  );
}

/** Pages that are open, and what they complained about. */
const watched = [];

/**
 * A page of a browser of its own, paired. Everything it says on its console, and every request to another place, is
 * remembered and is a failure at the end of the test.
 */
export async function open(host, options = {}) {
  const { role, at = "", path, ...rest } = options;
  const context = await (await browser()).newContext({ ...DESKTOP, ...(PAGE ? { serviceWorkers: "block" } : {}), ...rest });
  if (PAGE) await replaceFiles(context, host);
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const wrong = [];
  watched.push({ page, context, wrong });
  page.wrong = wrong;
  page.on("console", (message) => {
    if (message.type() !== "error" && message.type() !== "warning") return;
    // A host that is not there is what some tests are about.
    if (/ERR_CONNECTION_REFUSED|ERR_INTERNET_DISCONNECTED|WebSocket connection to/.test(message.text())) return;
    if (PAGE && message.text().startsWith("Service Worker registration blocked")) return;
    if (options.expect?.test(message.text())) return;
    wrong.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => options.expect?.test(error.message) || wrong.push(`exception: ${error.stack}`));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(host.url) && !/^(?:data|blob):/.test(url)) wrong.push(`a foreign request: ${url}`);
  });
  page.on("websocket", (socket) => {
    if (new URL(socket.url()).host !== host.address) wrong.push(`a foreign socket: ${socket.url()}`);
  });
  if (path !== undefined) await page.goto(host.url + path);
  else {
    await page.goto(await host.link(...(role ? ["--role", role] : [])));
    await page.waitForSelector(".shell");
    await page.waitForSelector(".side-list section, .side-note:has-text('No sessions')", { state: "attached" });
    if (at) await visit(page, at);
  }
  return page;
}

/** Closes all pages and says what was wrong with any. */
export async function closePages() {
  const complaints = [];
  for (const { context, wrong } of watched.splice(0)) {
    complaints.push(...wrong);
    await context.close();
  }
  assert.deepEqual(complaints, []);
}

export const visit = (page, hash) => page.evaluate((hash) => (location.hash = hash), hash);

/** Starts a session by the form, as a person would, and says the first thing. */
export async function begin(page, text, settings = {}) {
  await visit(page, "#/new");
  await page.getByLabel("What should the agent do?").fill(text);
  for (const [label, value] of Object.entries(settings)) await page.getByLabel(label, { exact: true }).selectOption({ label: value });
  await page.getByRole("button", { name: text ? "Start" : "Open an empty session", exact: true }).click();
  await page.waitForSelector(text ? ".turn" : ".composer");
  return page.evaluate(() => location.hash);
}

export async function say(page, text) {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.keyboard.press("Control+Enter");
}

/** Waits until the chat in sight has nothing more to do. */
export const idle = (page) => page.waitForSelector(".chat-head .mood-idle, .chat-head .mood-failed");

/** Keeps a picture where somebody wants to look at them. */
export async function picture(page, name) {
  if (!SHOTS) return;
  mkdirSync(SHOTS, { recursive: true });
  await page.screenshot({ path: join(SHOTS, `${name}.png`) });
}

/** Waits until something holds. What it waits for is state, never time. */
export async function until(what, check, patience = 20_000) {
  const end = Date.now() + patience;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > end) assert.fail(`this never came: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}
