/** What the whole page knows: the connection, the sessions, what waits for an answer, where the reader is. */
import { createEffect, createMemo, createRoot, createSignal, onCleanup } from "solid-js";
import { createMutable, reconcile, modifyMutable } from "solid-js/store";
import { Client, ROOT, RequestError, uuid, type View } from "./ahp/client";
import type { Outcome } from "./ahp/outbox";
import {
  Status,
  type Action,
  type InputNeeded,
  type RootState,
  type SessionState,
  type SessionSummary,
  type Uri,
} from "./ahp/types";
import { line, pathOf, plain, plural } from "./text/plain";

export const client = new Client();
export const root = client.view<RootState>(ROOT);
export const sessions = createMutable<Record<Uri, SessionSummary>>({});
export const [listed, setListed] = createSignal(false);

/** A clock for "3 min ago". */
export const [now, setNow] = createSignal(Date.now());
setInterval(() => setNow(Date.now()), 20_000);

// --- how much room there is ---------------------------------------------------------------------------------------------

function media(query: string) {
  const list = matchMedia(query);
  const [matches, set] = createSignal(list.matches);
  list.addEventListener("change", () => set(list.matches));
  return matches;
}

/** One column: the list or what is looked at, not both. */
export const narrow = media("(max-width: 799px)");
/** No room for a panel beside a conversation. */
export const snug = media("(max-width: 1180px)");

// --- what this browser may do -------------------------------------------------------------------------------------------

export const role = () => client.device()?.role ?? "view-only";
export const mayWrite = () => role() === "full";
export const mayAnswer = () => role() !== "view-only";

// --- where the reader is ------------------------------------------------------------------------------------------------

export type Place =
  | { view: "home" }
  | { view: "session"; session: Uri; chat?: Uri; panel?: string; turn?: string; find?: string }
  | { view: "inbox" | "new" | "usage" | "automations" | "settings" };

function readPlace(): Place {
  const [view, session, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  if (view === "s" && session) {
    const query = new URLSearchParams(rest.join("/"));
    return {
      view: "session",
      session: decodeURIComponent(session),
      chat: query.get("chat") ?? undefined,
      panel: query.get("panel") ?? undefined,
      turn: query.get("turn") ?? undefined,
      find: query.get("find") ?? undefined,
    };
  }
  if (view === "inbox" || view === "new" || view === "usage" || view === "automations" || view === "settings") return { view };
  return { view: "home" };
}

export function href(place: Place): string {
  if (place.view === "home") return "#/";
  if (place.view !== "session") return `#/${place.view}`;
  const query = new URLSearchParams();
  if (place.chat) query.set("chat", place.chat);
  if (place.panel) query.set("panel", place.panel);
  if (place.turn) query.set("turn", place.turn);
  if (place.find) query.set("find", place.find);
  const rest = query.toString();
  return `#/s/${encodeURIComponent(place.session)}${rest ? `/${rest}` : ""}`;
}

export const [place, setPlace] = createSignal<Place>(readPlace());
addEventListener("hashchange", () => setPlace(readPlace()));

export function go(to: Place, replace = false): void {
  if (replace) {
    history.replaceState(null, "", href(to));
    setPlace(to);
  } else location.hash = href(to).slice(1);
}

export const sessionPlace = () => {
  const at = place();
  return at.view === "session" ? at : undefined;
};

// --- short messages to the reader ---------------------------------------------------------------------------------------

export interface Toast {
  id: number;
  text: string;
  kind: "info" | "error";
  action?: { label: string; run: () => void };
}

export const [toasts, setToasts] = createSignal<Toast[]>([]);
let toastId = 0;

export function toast(text: string, options: { kind?: Toast["kind"]; action?: Toast["action"]; ms?: number } = {}): () => void {
  const id = ++toastId;
  const dismiss = () => setToasts((all) => all.filter((other) => other.id !== id));
  setToasts((all) => [...all.slice(-3), { id, text, kind: options.kind ?? "info", action: options.action }]);
  setTimeout(dismiss, options.ms ?? (options.kind === "error" ? 9000 : 4500));
  return dismiss;
}

export function complain(what: string, error: unknown): void {
  toast(`${what}: ${error instanceof Error ? error.message : String(error)}`, { kind: "error" });
}

// --- sessions -----------------------------------------------------------------------------------------------------------

async function list(): Promise<void> {
  const found: Record<Uri, SessionSummary> = {};
  let cursor: string | undefined;
  do {
    const page = await client.request<{ items: SessionSummary[]; nextCursor?: string }>("listSessions", {
      channel: ROOT,
      limit: 200,
      ...(cursor ? { cursor } : {}),
    });
    for (const item of page.items) found[item.resource] = item;
    cursor = page.nextCursor;
    // The newest come first, so the list can be shown while older ones are still read.
    if (!listed()) {
      Object.assign(sessions, found);
      setListed(true);
    }
  } while (cursor);
  modifyMutable(sessions, reconcile(found));
}

client.on("root/sessionAdded", (params) => {
  const summary = params.summary as SessionSummary;
  sessions[summary.resource] = summary;
});
client.on("root/sessionRemoved", (params) => {
  delete sessions[params.session as Uri];
});
client.on("root/sessionSummaryChanged", (params) => {
  const summary = sessions[params.session as Uri];
  if (summary) Object.assign(summary, params.changes);
});
client.onOnline(() => {
  list().catch((error) => complain("Could not list the sessions", error));
});

export type Mood = "waiting" | "working" | "failed" | "idle";

export function mood(status: number): Mood {
  if ((status & Status.InputNeeded) === Status.InputNeeded) return "waiting";
  if (status & Status.InProgress) return "working";
  if (status & Status.Error) return "failed";
  return "idle";
}

export const MOODS: Record<Mood, string> = {
  waiting: "Waiting for you",
  working: "Working",
  failed: "Failed",
  idle: "Idle",
};

export const archived = (session: { status: number }) => Boolean(session.status & Status.IsArchived);
export const unread = (session: { status: number }) => !(session.status & Status.IsRead);

export function titleOf(session: { title: string } | undefined): string {
  return (session && line(session.title)) || "New session";
}

export function directoryOf(session: { workingDirectories?: Uri[]; project?: { uri: Uri } }): string {
  return pathOf(session.workingDirectories?.[0] ?? session.project?.uri ?? "");
}

/** Sessions that are being deleted: hidden at once, removed when nobody took it back. */
export const deleting = createMutable<Record<Uri, true>>({});

export function deleteSession(session: Uri): void {
  deleting[session] = true;
  if (sessionPlace()?.session === session) go({ view: "home" });
  const commit = () => {
    clearTimeout(timer);
    removeEventListener("pagehide", commit);
    if (!deleting[session]) return;
    client
      .request("disposeSession", { channel: session })
      .then(() => delete sessions[session])
      .catch((error) => {
        if (!(error instanceof RequestError && error.code === -32001)) complain("The session was not deleted", error);
      })
      .finally(() => delete deleting[session]);
  };
  const timer = setTimeout(commit, 7000);
  addEventListener("pagehide", commit);
  toast(`Deleted “${titleOf(sessions[session])}”`, {
    ms: 7000,
    action: {
      label: "Undo",
      run: () => {
        clearTimeout(timer);
        removeEventListener("pagehide", commit);
        delete deleting[session];
      },
    },
  });
}

/** Sends an action and says so when the host refuses it. */
export async function act(channel: Uri, action: Action, what: string): Promise<Outcome> {
  const outcome = await client.dispatch(channel, action);
  if (!outcome.accepted) toast(`${what}: ${outcome.reason}`, { kind: "error" });
  return outcome;
}

export function rename(session: Uri, title: string): void {
  void act(session, { type: "session/titleChanged", title }, "The session was not renamed");
}

export function archive(session: Uri, isArchived: boolean): void {
  void act(session, { type: "session/isArchivedChanged", isArchived }, "The session was not changed");
}

export function markRead(session: Uri): void {
  if (mayWrite()) void client.dispatch(session, { type: "session/isReadChanged", isRead: true });
}

export async function fork(session: Uri, chat: Uri, turnId: string): Promise<void> {
  const copy = `ahp-chat:/${uuid()}`;
  try {
    await client.request("createChat", { channel: session, chat: copy, source: { kind: "fork", chat, turnId } });
    const moved = await client.request<{ session: Uri }>("moveChat", { channel: copy, destination: { kind: "newSession" } });
    go({ view: "session", session: moved.session });
    toast("Forked into a new session");
  } catch (error) {
    complain("The session was not forked", error);
  }
}

// --- pins, shared by all pages of this host -----------------------------------------------------------------------------

const PINS = "lodge.page.pinned";

export const pinned = (): Uri[] => (root.state()?.config?.values[PINS] as Uri[] | undefined) ?? [];
export const isPinned = (session: Uri) => pinned().includes(session);

export function pin(session: Uri, on: boolean): void {
  const rest = pinned().filter((other) => other !== session && sessions[other]);
  void act(ROOT, { type: "root/configChanged", config: { [PINS]: on ? [...rest, session] : rest } }, "The pin was not saved");
}

// --- what waits for an answer -------------------------------------------------------------------------------------------

export interface Open {
  session: Uri;
  request: InputNeeded;
}

/** Every open question of every session. A session that waits is subscribed to, wherever the reader is. */
export const inbox = createRoot(() => {
  const views = createMutable<Record<Uri, View<SessionState>>>({});
  createEffect(() => {
    const waiting = new Set(
      Object.values(sessions)
        .filter((session) => mood(session.status) === "waiting" && !deleting[session.resource])
        .map((session) => session.resource),
    );
    for (const uri of Object.keys(views)) {
      if (waiting.has(uri)) continue;
      views[uri]!.release();
      delete views[uri];
    }
    for (const uri of waiting) views[uri] ??= client.view<SessionState>(uri);
  });
  onCleanup(() => Object.values(views).forEach((view) => view.release()));
  return createMemo<Open[]>(() =>
    Object.entries(views)
      .sort(([a], [b]) => (sessions[b]?.modifiedAt ?? "").localeCompare(sessions[a]?.modifiedAt ?? ""))
      .flatMap(([session, view]) =>
        (view.state()?.inputNeeded ?? [])
          .filter((request) => request.kind !== "toolClientExecution")
          .map((request) => ({ session, request })),
      ),
  );
});

export const waitingText = () => `${plural(inbox().length, "question")} waiting for you`;

/** Answers that are on their way, by the id of the question. */
export const answering = createMutable<Record<string, true>>({});
/** What became of questions that this page answered, or that others answered first. */
export const answered = createMutable<Record<string, string>>({});

/** Questions that this page answered. */
const mine = new Set<string>();
export const answeredHere = (request: InputNeeded) => mine.has(request.id);

/** What others answered in the chats in sight, for a moment. */
export const [others, setOthers] = createSignal<{ chat: Uri; text: string }[]>([]);

client.onOthersAnswer = (chat, action) => {
  let what: string | undefined;
  let how = action.approved ? "allowed" : "denied";
  for (const part of chat.activeTurn?.responseParts ?? []) {
    if (part.kind === "toolCall" && part.toolCall.toolCallId === action.toolCallId) {
      const call = part.toolCall;
      what = plain(call.confirmationTitle ?? call.invocationMessage ?? call.displayName);
      const option = call.options?.find((option) => option.id === action.selectedOptionId);
      if (option) how = `“${option.label}”`;
    } else if (part.kind === "inputRequest" && part.request.id === action.requestId && !part.response) {
      what = part.request.message ?? part.request.questions?.[0]?.message ?? "a question";
      how = action.response === "accept" ? "answered" : "declined";
    }
  }
  if (what === undefined) return;
  const entry = { chat: chat.resource, text: `Someone else answered “${line(what).slice(0, 120)}”: ${line(how)}.` };
  setOthers((all) => [...all.slice(-2), entry]);
  setTimeout(() => setOthers((all) => all.filter((other) => other !== entry)), 10_000);
};

/** Gives an answer. It arrives once, however often the network fails on the way. */
export async function answer(session: Uri, request: InputNeeded, action: Action): Promise<void> {
  if (answering[request.id]) return;
  answering[request.id] = true;
  mine.add(request.id);
  const outcome = await client.dispatch(request.chat, action, session);
  delete answering[request.id];
  if (outcome.accepted) return;
  mine.delete(request.id);
  const late = /no such|not open|not wait|not pending|already|no longer/i.test(outcome.reason);
  answered[request.id] = late ? "Someone else answered this first." : outcome.reason;
  toast(late ? "Someone else answered this first." : `The answer was refused: ${outcome.reason}`, { kind: "error" });
}

createRoot(() => {
  createEffect(() => {
    const waiting = inbox().length;
    const at = sessionPlace();
    const name = at ? titleOf(sessions[at.session]) : "Lodge";
    document.title = waiting > 0 ? `(${waiting}) ${name}` : name;
  });
});
