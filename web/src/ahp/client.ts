/** The connection to the host: requests, subscriptions that stay right over reconnects, actions that arrive once. */
import { batch, createSignal, type Accessor } from "solid-js";
import { createMutable, modifyMutable, reconcile } from "solid-js/store";
import * as door from "./door";
import { Outbox, type Kept, type Outcome } from "./outbox";
import { reduce } from "./reduce";
import type { Action, ChatState, Envelope, InitializeResult, SessionState, Snapshot, Uri } from "./types";

export const ROOT = "ahp-root://";

export type Phase = "connecting" | "online" | "offline" | "unpaired";

export class RequestError extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

/** The connection ended before the answer came. */
export class LostError extends Error {
  constructor() {
    super("The connection to the host was lost.");
  }
}

/** What answers a question, as everybody who watches its chat hears it. */
const ANSWERS = new Set(["chat/toolCallConfirmed", "chat/toolCallResultConfirmed", "chat/inputCompleted"]);

/** Requests that may be made twice: they only read, or name what they make. */
const REPEATABLE = new Set([
  "listSessions",
  "fetchTurns",
  "completions",
  "resourceRead",
  "resourceList",
  "resourceResolve",
  "resolveSessionConfig",
  "disposeSession",
  "runAutomation",
  "lodge/search",
  "lodge/todos",
]);

const PING_EVERY = 15_000;
const PING_PATIENCE = 5_000;
/** How long changes are collected before the page redraws: 20 times a second is fluent and costs little. */
const FRAME = 50;
/** A channel that nobody looks at stays subscribed for a while, so that going back to it is immediate. */
const LINGER = 45_000;

export interface View<T> {
  readonly channel: Uri;
  /** Nothing until the host has answered. */
  readonly state: Accessor<T | undefined>;
  readonly error: Accessor<string | undefined>;
  release(): void;
}

class Channel {
  users = 0;
  state: object | undefined;
  get: Accessor<object | undefined>;
  set: (state: object | undefined) => void;
  error: Accessor<string | undefined>;
  setError: (error: string | undefined) => void;
  linger: ReturnType<typeof setTimeout> | undefined;
  listeners = new Set<(action: Action) => void>();
  snapshots = new Set<() => void>();
  subscribed = false;

  constructor(readonly uri: Uri) {
    const [get, set] = createSignal<object | undefined>();
    const [error, setError] = createSignal<string | undefined>();
    this.get = get;
    this.set = set;
    this.error = error;
    this.setError = setError;
  }

  /** Takes a state as it is at the host. What is shown already is changed only where it differs. */
  take(state: object): void {
    this.setError(undefined);
    this.subscribed = true;
    if (this.state) modifyMutable(this.state, reconcile(state, { key: "id" }));
    else {
      this.state = createMutable(state);
      this.set(this.state);
    }
    for (const listener of this.snapshots) listener();
  }
}

interface Waiting {
  resolve: (result: unknown) => void;
  reject: (error: Error) => void;
}

function randomId(): string {
  // crypto.randomUUID needs a secure page; the host may be reached by a plain address.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

export const uuid = randomId;

export class Client {
  readonly clientId: string;
  readonly phase: Accessor<Phase>;
  readonly device: Accessor<door.Device | undefined>;
  readonly host: Accessor<InitializeResult | undefined>;
  /** When the next attempt to connect is due, for people who wait. */
  readonly retryAt: Accessor<number | undefined>;

  #setPhase: (phase: Phase) => void;
  #setDevice: (device: door.Device | undefined) => void;
  #setHost: (host: InitializeResult) => void;
  #setRetryAt: (at: number | undefined) => void;
  #socket: WebSocket | undefined;
  #id = 0;
  #seq: number;
  #seen = 0;
  #known = false;
  #waiting = new Map<number, Waiting>();
  #channels = new Map<Uri, Channel>();
  #outbox = new Outbox();
  #inbox: Envelope[] = [];
  #flushing: ReturnType<typeof setTimeout> | undefined;
  #flushed = 0;
  #cost = 0;
  #attempts = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #connecting = false;
  #onlineWaiters: (() => void)[] = [];
  #notifications = new Map<string, (params: Record<string, unknown>) => void>();
  #comeback: (() => void)[] = [];
  /** Hears when another client answers a question of a chat that is shown, before the chat changes. */
  onOthersAnswer: ((chat: ChatState, action: Action) => void) | undefined;

  constructor() {
    this.clientId = sessionStorage.getItem("lodge.client") ?? `page-${randomId()}`;
    sessionStorage.setItem("lodge.client", this.clientId);
    // Numbers go on after a reload: an echo of an old one must not count for a new one.
    this.#seq = Math.max(this.#outbox.last, Number(sessionStorage.getItem("lodge.seq") ?? 0));
    const [phase, setPhase] = createSignal<Phase>("connecting");
    const [device, setDevice] = createSignal<door.Device | undefined>();
    const [host, setHost] = createSignal<InitializeResult | undefined>();
    const [retryAt, setRetryAt] = createSignal<number | undefined>();
    this.phase = phase;
    this.device = device;
    this.host = host;
    this.retryAt = retryAt;
    this.#setPhase = setPhase;
    this.#setDevice = setDevice;
    this.#setHost = setHost;
    this.#setRetryAt = setRetryAt;
    // What an earlier life of this page did not get acknowledged.
    for (const kept of this.#outbox.entries) this.#hold(kept);
    addEventListener("online", () => this.wake());
    addEventListener("offline", () => this.#lose());
    addEventListener("pageshow", () => this.wake());
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") this.wake();
    });
    setInterval(() => {
      if (document.visibilityState === "visible") void this.#probe(PING_PATIENCE);
    }, PING_EVERY);
  }

  on(method: string, handler: (params: Record<string, unknown>) => void): void {
    this.#notifications.set(method, handler);
  }

  /** Runs a function each time the connection is there, also the first time. */
  onOnline(handler: () => void): void {
    this.#comeback.push(handler);
    if (this.phase() === "online") handler();
  }

  /** Makes sure that the connection is alive: after sleep a socket may look open and be dead. */
  wake(): void {
    if (this.#socket?.readyState === WebSocket.OPEN && this.phase() === "online") void this.#probe(2_000);
    else {
      clearTimeout(this.#retry);
      this.#attempts = 0;
      void this.connect();
    }
  }

  async connect(): Promise<void> {
    if (this.#connecting || this.#socket) return;
    this.#connecting = true;
    clearTimeout(this.#retry);
    this.#setRetryAt(undefined);
    try {
      const device = await door.device();
      if (!device) {
        this.#setPhase("unpaired");
        return;
      }
      this.#setDevice(device);
      await this.#open();
      this.#attempts = 0;
    } catch {
      const socket = this.#socket as WebSocket | undefined;
      this.#socket = undefined;
      socket?.close();
      this.#later();
    } finally {
      this.#connecting = false;
    }
  }

  #later(): void {
    if (this.phase() === "unpaired") return;
    this.#setPhase("offline");
    const delay = Math.min(15_000, 400 * 2 ** this.#attempts++) * (0.8 + 0.4 * Math.random());
    this.#setRetryAt(Date.now() + delay);
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => void this.connect(), delay);
  }

  #open(): Promise<void> {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(door.socketUrl());
      this.#socket = socket;
      const patience = setTimeout(() => socket.close(), 10_000);
      socket.onopen = () => {
        this.#handshake().then(() => {
          clearTimeout(patience);
          resolve();
        }, reject);
      };
      socket.onmessage = (event) => {
        if (socket === this.#socket) this.#receive(JSON.parse(event.data as string));
      };
      socket.onclose = (event) => {
        clearTimeout(patience);
        reject(new LostError());
        if (socket !== this.#socket) return;
        if (event.code === 4401) this.#setPhase("unpaired");
        this.#lose();
      };
    });
  }

  /** Forgets a connection that is gone, and tries again. */
  #lose(): void {
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.close();
    this.#flush();
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject } of waiting) reject(new LostError());
    for (const channel of this.#channels.values()) channel.subscribed = false;
    if (!this.#connecting) this.#later();
  }

  async #probe(patience: number): Promise<void> {
    const socket = this.#socket;
    if (!socket || this.phase() !== "online") return;
    const dead = setTimeout(() => {
      if (socket === this.#socket) this.#lose();
    }, patience);
    try {
      await this.#send("ping", { channel: ROOT });
    } catch {
      // Whoever closed the connection also begins the next one.
    }
    clearTimeout(dead);
  }

  async #handshake(): Promise<void> {
    const wanted = [...this.#channels.values()].filter((channel) => channel.users > 0 || channel.state);
    const uris = wanted.map((channel) => channel.uri);
    let snapshots: Snapshot[] = [];
    let resumed = false;
    if (this.#known) {
      try {
        const result = (await this.#send("reconnect", {
          channel: ROOT,
          clientId: this.clientId,
          lastSeenServerSeq: this.#seen,
          subscriptions: uris,
        })) as { type: string; actions?: Envelope[]; snapshots?: Snapshot[]; missing?: Uri[] };
        resumed = true;
        if (result.type === "replay") {
          const missing = new Set(result.missing);
          for (const channel of wanted) channel.subscribed = !missing.has(channel.uri);
          this.#inbox.push(...(result.actions ?? []));
          this.#flush();
        } else snapshots = result.snapshots ?? [];
      } catch (error) {
        if (!(error instanceof RequestError)) throw error;
      }
    }
    if (!resumed) {
      const result = (await this.#send("initialize", {
        channel: ROOT,
        protocolVersions: ["1.0.0"],
        clientId: this.clientId,
        clientInfo: { name: "lodge-page", title: "Lodge page" },
        // Browsers without a language of their own say `en-US@posix`, which is no language tag.
        locale: navigator.language.split("@")[0],
        initialSubscriptions: uris,
      })) as InitializeResult;
      this.#known = true;
      this.#seen = Math.max(this.#seen, result.serverSeq);
      this.#setHost(result);
      snapshots = result.snapshots;
    }
    batch(() => {
      for (const snapshot of snapshots) {
        this.#seen = Math.max(this.#seen, snapshot.fromSeq);
        this.#channels.get(snapshot.resource)?.take(snapshot.state);
      }
    });
    this.#setPhase("online");
    // Also those that somebody began to look at while the answer was on its way.
    for (const channel of this.#channels.values()) if (!channel.subscribed) void this.#subscribe(channel);
    this.#resend();
    for (const waiter of this.#onlineWaiters.splice(0)) waiter();
    for (const handler of this.#comeback) handler();
  }

  /** Sends what was not acknowledged, unless the state shows that it arrived. */
  #resend(): void {
    for (const kept of this.#outbox.entries) {
      if (this.#arrived(kept)) this.#outbox.settle(kept.clientSeq, { accepted: true });
      else this.#write(kept);
    }
  }

  #arrived({ channel, action, session }: Kept): boolean {
    const chat = this.#channels.get(channel)?.state as ChatState | undefined;
    switch (action.type) {
      case "chat/turnStarted":
        return Boolean(
          chat && (chat.activeTurn?.id === action.turnId || chat.turns?.some((turn) => turn.id === action.turnId)),
        );
      case "chat/pendingMessageSet":
        return Boolean(
          chat?.queuedMessages?.some((message) => message.id === action.id) || chat?.steeringMessage?.id === action.id,
        );
      case "chat/toolCallConfirmed":
      case "chat/inputCompleted": {
        // Answers count once at the host; this only spares it an answer that it would refuse.
        const open = session && (this.#channels.get(session)?.state as SessionState | undefined);
        const id = action.toolCallId ?? action.requestId;
        return Boolean(
          open &&
            !open.inputNeeded?.some(
              (request) =>
                request.id === id || (request.kind === "toolConfirmation" && request.toolCall.toolCallId === id),
            ),
        );
      }
      default:
        return false;
    }
  }

  #write(kept: Kept): void {
    if (this.phase() !== "online" || !this.#socket) return;
    const params = { channel: kept.channel, clientSeq: kept.clientSeq, action: kept.action };
    this.#socket.send(JSON.stringify({ jsonrpc: "2.0", method: "dispatchAction", params }));
  }

  #nextSeq(): number {
    this.#seq += 1;
    sessionStorage.setItem("lodge.seq", String(this.#seq));
    return this.#seq;
  }

  /** Sends an action that must arrive once, also if the connection fails now. */
  async dispatch(channel: Uri, action: Action, session?: Uri): Promise<Outcome> {
    const kept = { channel, action, session, clientSeq: this.#nextSeq() };
    const outcome = this.#outbox.add(kept);
    const release = this.#hold(kept);
    this.#write(kept);
    try {
      return await outcome;
    } finally {
      release();
    }
  }

  /** Stays subscribed to the channel that shows whether an action arrived, wherever the user navigates meanwhile. */
  #hold({ channel, session }: Kept): () => void {
    const views = [channel, ...(session ? [session] : [])].map((uri) => this.view(uri));
    return () => views.forEach((view) => view.release());
  }

  /** Sends an action that is worth nothing later, such as a key in a terminal. */
  fire(channel: Uri, action: Action): boolean {
    if (this.phase() !== "online") return false;
    this.#write({ channel, action, clientSeq: this.#nextSeq() });
    return true;
  }

  #send(method: string, params: object): Promise<unknown> {
    const socket = this.#socket;
    if (!socket || socket.readyState !== WebSocket.OPEN) return Promise.reject(new LostError());
    const id = ++this.#id;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  #online(): Promise<void> {
    if (this.phase() === "online") return Promise.resolve();
    return new Promise((resolve) => this.#onlineWaiters.push(resolve));
  }

  /** Asks the host. Waits for the connection; what may be asked twice is asked again when it was lost on the way. */
  async request<T>(method: string, params: object): Promise<T> {
    for (;;) {
      await this.#online();
      try {
        return (await this.#send(method, params)) as T;
      } catch (error) {
        if (!(error instanceof LostError) || !REPEATABLE.has(method)) throw error;
      }
    }
  }

  /** Shows a channel for as long as somebody looks at it. */
  view<T extends object>(uri: Uri): View<T> {
    let channel = this.#channels.get(uri);
    if (!channel) {
      channel = new Channel(uri);
      this.#channels.set(uri, channel);
    }
    channel.users += 1;
    clearTimeout(channel.linger);
    if (!channel.subscribed && this.phase() === "online") void this.#subscribe(channel);
    let released = false;
    return {
      channel: uri,
      state: channel.get as Accessor<T | undefined>,
      error: channel.error,
      release: () => {
        if (released) return;
        released = true;
        this.#release(channel);
      },
    };
  }

  #release(channel: Channel): void {
    channel.users -= 1;
    if (channel.users > 0) return;
    channel.linger = setTimeout(() => {
      if (this.#channels.get(channel.uri) !== channel || channel.users > 0) return;
      this.#channels.delete(channel.uri);
      if (this.phase() === "online" && channel.subscribed)
        this.#socket?.send(JSON.stringify({ jsonrpc: "2.0", method: "unsubscribe", params: { channel: channel.uri } }));
    }, LINGER);
  }

  /** Is called for every action of a subscribed channel, and when its state was loaded again. */
  listen(uri: Uri, onAction: (action: Action) => void, onSnapshot: () => void): () => void {
    const channel = this.#channels.get(uri);
    channel?.listeners.add(onAction);
    channel?.snapshots.add(onSnapshot);
    return () => {
      channel?.listeners.delete(onAction);
      channel?.snapshots.delete(onSnapshot);
    };
  }

  async #subscribe(channel: Channel): Promise<void> {
    if (channel.subscribed) return;
    channel.subscribed = true;
    try {
      const result = (await this.#send("subscribe", { channel: channel.uri })) as { snapshot?: Snapshot };
      if (!result.snapshot) return;
      this.#seen = Math.max(this.#seen, result.snapshot.fromSeq);
      channel.take(result.snapshot.state);
    } catch (error) {
      channel.subscribed = false;
      if (error instanceof RequestError) channel.setError(error.message);
    }
  }

  #receive(message: {
    id?: number;
    method?: string;
    params?: unknown;
    result?: unknown;
    error?: { code: number; message: string };
  }): void {
    if (message.method === "action") {
      this.#inbox.push(message.params as Envelope);
      this.#soon();
      return;
    }
    if (message.method !== undefined && message.id !== undefined) {
      const error = { code: -32601, message: "This page does not serve requests." };
      this.#socket?.send(JSON.stringify({ jsonrpc: "2.0", id: message.id, error }));
      return;
    }
    // Whatever came before an answer is known when the answer is read.
    this.#flush();
    if (message.method !== undefined) {
      this.#notifications.get(message.method)?.((message.params ?? {}) as Record<string, unknown>);
      return;
    }
    const waiting = this.#waiting.get(message.id!);
    if (!waiting) return;
    this.#waiting.delete(message.id!);
    if (message.error) waiting.reject(new RequestError(message.error.code, message.error.message));
    else waiting.resolve(message.result);
  }

  /** Applies what came: at once after a pause, else together with what comes in the same moment. */
  #soon(): void {
    if (this.#flushing !== undefined) return;
    // What takes long to show is shown less often, so that the page always has time for the reader.
    const due = Math.max(0, Math.max(FRAME, this.#cost * 5) - (performance.now() - this.#flushed));
    this.#flushing = setTimeout(() => this.#flush(), due);
  }

  #flush(): void {
    clearTimeout(this.#flushing);
    this.#flushing = undefined;
    const envelopes = this.#inbox;
    if (envelopes.length === 0) return;
    this.#inbox = [];
    const begin = performance.now();
    batch(() => {
      for (const envelope of envelopes) this.#apply(envelope);
    });
    this.#flushed = performance.now();
    this.#cost = this.#flushed - begin;
  }

  #apply({ channel: uri, action, serverSeq, origin, rejectionReason }: Envelope): void {
    const mine = origin?.clientId === this.clientId;
    if (rejectionReason !== undefined) {
      if (mine) this.#outbox.settle(origin!.clientSeq, { accepted: false, reason: rejectionReason });
      return;
    }
    this.#seen = Math.max(this.#seen, serverSeq);
    const channel = this.#channels.get(uri);
    if (channel?.state) {
      if (origin && !mine && ANSWERS.has(action.type)) this.onOthersAnswer?.(channel.state as ChatState, action);
      reduce(channel.state, action);
      for (const listener of channel.listeners) listener(action);
    }
    if (mine) this.#outbox.settle(origin!.clientSeq, { accepted: true });
  }
}
