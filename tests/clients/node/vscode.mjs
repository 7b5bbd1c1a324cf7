// VS Code's own AHP client, from its published modules. Ours is only what a window gives it: a socket under its
// WebSocket code, and services with nothing in them.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { Emitter, Event } from "@codingame/monaco-vscode-api/vscode/vs/base/common/event";
import { URI } from "@codingame/monaco-vscode-api/vscode/vs/base/common/uri";
import { generateUuid } from "@codingame/monaco-vscode-api/vscode/vs/base/common/uuid";
import { AgentHostProtocolClient } from "@codingame/monaco-vscode-api/vscode/vs/platform/agentHost/browser/agentHostProtocolClient";
import { AgentSession } from "@codingame/monaco-vscode-api/vscode/vs/platform/agentHost/common/agent";
import { editorWindowAgentHostClientInfo } from "@codingame/monaco-vscode-api/vscode/vs/platform/agentHost/common/agentHostClientInfo";
import { toAgentHostUri } from "@codingame/monaco-vscode-api/vscode/vs/platform/agentHost/common/agentHostUri";
import { StateComponents, buildDefaultChatUri } from "@codingame/monaco-vscode-api/vscode/vs/platform/agentHost/common/state/sessionState";
import { connectWebSocketOverDuplex } from "@codingame/monaco-vscode-api/vscode/vs/platform/agentHost/common/webSocketOverDuplex";

import { RuntimeConnection, ask, environment, lodge, session, test as place, until } from "./help.mjs";

export { URI, generateUuid };

/** A test with a host that runs, and windows that close with it. */
export function test(name, body) {
  place(name, async ({ t, home, work, start: startApp }) => {
    const host = await start(home, work);
    const windows = [];
    const window = async (options) => {
      const made = new Window(host.address, options);
      windows.push(made);
      await made.client.connect();
      return made;
    };
    try {
      await body({ t, home, work, host, window, startApp });
      for (const { fractions } of windows) assert.deepEqual(fractions, [], "the official clients in Go and Rust read numbers as integers");
    } finally {
      for (const made of windows) made.client.dispose();
      await host.kill();
    }
  });
}

/** The binary as a person starts it. `restart` brings it back at the same port. */
async function start(home, work, port = 0) {
  const child = spawn(lodge, ["--home", home, "--port", String(port), "--sdk-port", "0"], {
    cwd: work,
    env: environment(),
    stdio: ["ignore", "pipe", "inherit"],
  });
  const gone = once(child, "exit");
  const kill = async () => {
    child.kill("SIGKILL");
    await gone;
  };
  let address;
  for await (const line of createInterface({ input: child.stdout })) {
    const url = /^AHP clients +(ws:\S+)/.exec(line)?.[1];
    if (url) address = new URL(url);
    const sdk = /^Copilot SDKs +.*forUri\("(.+?)"\)/.exec(line);
    if (!sdk) continue;
    // A token is printed on terminals alone; programs read its file.
    const token = readFileSync(join(home, "token"), "utf8").trim();
    address.searchParams.set("tkn", token);
    const host = { address, sdk: { url: sdk[1], connectionToken: token }, kill };
    host.restart = async () => {
      const next = await start(home, work, address.port);
      assert.equal(next.address.href, address.href, "a host that comes back is found where it was");
      Object.assign(host, { kill: next.kill, sdk: next.sdk });
    };
    return host;
  }
  throw new Error("the host ended without naming its address");
}

/** One connection, as VS Code's transports are: `connect` opens it, messages are JSON. */
class Transport {
  clientConnectionKind = "direct_websocket";
  #message = new Emitter();
  #close = new Emitter();
  onMessage = this.#message.event;
  onClose = this.#close.event;

  constructor(window) {
    this.window = window;
  }

  async connect() {
    const { hostname, port, pathname, search } = this.window.address;
    this.socket = connect(Number(port), hostname);
    await once(this.socket, "connect");
    // The bounds are those of its tunnels; the sockets of windows have none.
    const unbounded = { maxFramePayloadLength: 2 ** 30, maxMessagePayloadLength: 2 ** 30 };
    const where = { path: pathname + search, host: `${hostname}:${port}` };
    this.web = await connectWebSocketOverDuplex(this.socket, { ...where, ...unbounded });
    // Each in a task of its own, as windows deliver them: what waits for an answer goes on before the next is heard.
    this.web.onDidReceiveMessage((text) =>
      setImmediate(() => {
        const message = JSON.parse(text, (key, value) => {
          // What a form suggests is the form's own business, and may be a fraction.
          if (typeof value === "number" && !Number.isSafeInteger(value) && key !== "defaultValue") this.window.fractions.push(key);
          return value;
        });
        this.window.heard.push(message);
        this.#message.fire(message);
      }));
    this.web.onDidClose(() => setImmediate(() => this.#close.fire()));
  }

  send(message) {
    this.window.said.push(message);
    this.web?.send(JSON.stringify(message));
  }

  dispose() {
    this.socket?.destroy();
    this.#message.dispose();
    this.#close.dispose();
  }
}

const nothing = { dispose() {} };
const services = (warnings) => [
  { trace() {}, debug() {}, info() {}, warn: (...words) => warnings.push(words.join(" ")), error: (...words) => warnings.push(words.join(" ")) },
  { grantImplicitRead: () => nothing, connectionClosed() {} },
  { onDidChangeConfiguration: Event.None, inspect: () => ({}), getValue: () => undefined },
  { telemetryLevel: 0 },
  { isWorkspaceTrustEnabled: () => true },
  { onDidChangeTrustedFolders: Event.None, onDidChangeTrust: Event.None, getTrustedUris: () => [] },
  {},
];

/** An editor window: VS Code's client, what it said and heard, and the sessions it looks at. */
export class Window {
  said = [];
  heard = [];
  warnings = [];
  notified = [];
  fractions = [];

  constructor(address, options = {}) {
    this.address = address;
    const open = () => (this.transport = new Transport(this));
    const policy = { autoRestore: true, initialDelayMs: 20, maxDelayMs: 100, maxAttempts: 200 };
    // Its own estimator of the machine's load would keep a timer running for ever.
    const loadEstimator = { hasHighLoad: () => false };
    const given = { clientInfo: editorWindowAgentHostClientInfo, reconnectPolicy: policy, loadEstimator, ...options };
    this.client = new AgentHostProtocolClient(address.host, open, given, ...services(this.warnings));
    this.client.onDidNotification((notification) => this.notified.push(notification));
  }

  /** The folder as VS Code names it when it lies on the host. */
  folder(path) {
    return toAgentHostUri(URI.file(path), this.client.resourceUris.fromAgentHost(URI.file(path)).authority);
  }

  /** Makes a session the way a new chat editor does, without waiting for anything, and looks at it. */
  create(work, config = {}) {
    const session = AgentSession.uri("lodge", generateUuid());
    const made = this.client.createSession({
      provider: "lodge",
      session,
      workingDirectories: [this.folder(work)],
      config: { autoApprove: "default", mode: "interactive" },
      progressToken: generateUuid(),
      ...config,
    });
    return Object.assign(this.look(session), { made });
  }

  /** Looks at a session and its default chat, whose URI a window works out for itself. */
  look(session) {
    return new Chat(this, session, URI.parse(buildDefaultChatUri(session)));
  }

  /** Cuts the connection without a word. */
  cut() {
    this.transport.socket.destroy();
  }

  /** Hears nothing more on this connection. */
  deaf() {
    this.transport.socket.pause();
  }

  /** The envelopes of an action that were heard. */
  heardOf(type) {
    return this.heard.filter(({ params }) => params?.action?.type === type).map(({ params }) => params);
  }
}

/** A chat that a window shows. */
export class Chat {
  constructor(window, session, uri) {
    this.window = window;
    this.session = session;
    this.uri = uri;
    this.sessionView = window.client.getSubscription(StateComponents.Session, session, "test").object;
    this.chatView = window.client.getSubscription(StateComponents.Chat, uri, "test").object;
  }

  /** What the window shows: its mirror with its own actions already in it. */
  get shown() {
    return settled(this.chatView.value);
  }

  get about() {
    return settled(this.sessionView.value);
  }

  /** Dispatches about the chat. */
  say(action) {
    this.window.client.dispatch(this.uri.toString(), action);
  }

  /** Dispatches about the session. */
  tell(action) {
    this.window.client.dispatch(this.session.toString(), action);
  }

  /** Starts a turn and does not wait. */
  begin(text, more = {}) {
    const turnId = generateUuid();
    const message = { text, origin: { kind: "user" }, ...more };
    this.say({ type: "chat/turnStarted", turnId, startedAt: new Date().toISOString(), message });
    return turnId;
  }

  /** Waits for a turn to be over. */
  ended(turnId) {
    return until(`turn ${turnId} is over`, () => this.chatView.verifiedValue?.turns.find(({ id }) => id === turnId));
  }

  /** A whole turn. */
  ask(text, more) {
    return this.ended(this.begin(text, more));
  }

  /** Waits for a question to the person. */
  async inputRequest() {
    const part = await until("a question is put", () => this.shown?.activeTurn?.responseParts.find(({ kind }) => kind === "inputRequest"));
    return part.request;
  }

  /** Waits for a tool call of the running turn to be in a state. */
  toolCall(status) {
    return until(`a tool call is ${status}`, () =>
      this.shown?.activeTurn?.responseParts.map(({ toolCall }) => toolCall).find((call) => call?.status === status));
  }
}

function settled(value) {
  if (value instanceof Error) throw value;
  return value;
}

/** The texts of a turn's markdown or reasoning. */
export const texts = (turn, kind = "markdown") =>
  turn.responseParts.filter((part) => part.kind === kind).map(({ content }) => content).join("");

/** The tool calls of a turn. */
export const calls = (turn) => turn.responseParts.flatMap(({ toolCall }) => toolCall ?? []);

/** Without what is not there. */
export const plain = (value) => JSON.parse(JSON.stringify(value, (_, found) => (found === null ? undefined : found)));

/** A session with one turn behind it, seen by two windows. */
export async function shared(window, work) {
  const chat = (await window()).create(work);
  await chat.ask("say hello");
  const other = (await window()).look(chat.session);
  await until("both see it", () => other.shown && other.about);
  return [chat, other];
}

/** Both windows, and one that comes now, have the same state, and nothing of their own is left over. */
export async function agree(window, ...chats) {
  const fresh = (await window()).look(chats[0].session);
  await until("the new window has it", () => fresh.shown && fresh.about);
  for (const { shown, about, chatView, sessionView } of chats) {
    assert.deepEqual(plain(shown), plain(fresh.shown));
    assert.deepEqual(plain(about), plain(fresh.about));
    assert.deepEqual(shown, chatView.verifiedValue);
    assert.deepEqual(about, sessionView.verifiedValue);
  }
}

/** An app of the Copilot SDK on the running host. */
export function app({ host, startApp }) {
  const { url, connectionToken } = host.sdk;
  const connection = RuntimeConnection.forUri(url, { connectionToken });
  return startApp({ connection, workingDirectory: undefined, baseDirectory: undefined, env: undefined });
}

/** A session of an app with one turn behind it, and a window that looks at it. */
export async function both(place, config = {}) {
  const { session: made, events } = await session(app(place), { workingDirectory: place.work, ...config });
  await ask(made, "say hello");
  const mine = await place.window();
  const [listed] = await mine.client.listSessions();
  const chat = mine.look(listed.session);
  await until("the window shows it", () => chat.shown && chat.about);
  return { made, events, chat, mine };
}

/** The chat of a sub-agent. */
export async function below(mine, chat, toolCallId) {
  const entry = await until("the sub-agent has a chat", () => chat.about.chats.find(({ origin }) => origin?.toolCallId === toolCallId));
  const sub = new Chat(mine, chat.session, URI.parse(entry.resource));
  await until("it is shown", () => sub.shown);
  return sub;
}
