/** Notifications of this browser. They say what happened, and nothing of what a session is about. Where the browser has a push service they
 * also come while the page is closed; else while it is open and not in sight. */
import { createEffect, createRoot, createSignal } from "solid-js";
import type { Uri } from "./ahp/types";
import { client, deleting, mood, sessions, type Mood } from "./app";

export const NOTIFY = "lodge.notify";

/** Why there can be none; nothing where there can. */
export function impossible(): string | undefined {
  if (!isSecureContext) return "Browsers show notifications only for pages served over HTTPS or from this machine.";
  if (!("Notification" in window)) return "This browser does not support notifications.";
  if (Notification.permission === "denied") return "This browser blocks notifications from this page.";
  return undefined;
}

export const [notifying, setNotifying] = createSignal(!impossible() && Notification.permission === "granted" && localStorage.getItem(NOTIFY) === "on");

/** Whether the host tells this browser also while the page is closed. */
export const [pushed, setPushed] = createSignal(localStorage.getItem("lodge.push") === "on");

function keepPushed(on: boolean): void {
  if (on) localStorage.setItem("lodge.push", "on");
  else localStorage.removeItem("lodge.push");
  setPushed(on);
}

const bytes = (text: string) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));

async function subscribe(): Promise<boolean> {
  const worker = await navigator.serviceWorker?.getRegistration();
  if (!worker?.pushManager) return false;
  const { key } = await client.request<{ key: string }>("lodge/pushKey", {});
  const made = await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: bytes(key) });
  const { endpoint, keys } = made.toJSON();
  await client.request("lodge/pushSubscribe", { endpoint, keys });
  return true;
}

async function unsubscribe(): Promise<void> {
  const worker = await navigator.serviceWorker?.getRegistration();
  await (await worker?.pushManager?.getSubscription())?.unsubscribe();
  await client.request("lodge/pushUnsubscribe", {});
}

export async function notify(on: boolean): Promise<void> {
  const allowed = on && (await Notification.requestPermission()) === "granted";
  if (allowed) localStorage.setItem(NOTIFY, "on");
  else localStorage.removeItem(NOTIFY);
  setNotifying(allowed);
  // Not every browser has a push service, and not every one reaches it: then the page itself tells, while it is open.
  if (allowed) keepPushed(await subscribe().catch(() => false));
  else if (pushed()) {
    keepPushed(false);
    await unsubscribe().catch(() => {});
  }
}

const TEXTS: Partial<Record<Mood, string>> = {
  waiting: "A session needs you",
  failed: "A session failed",
  idle: "A session is done",
};

async function show(session: Uri, text: string): Promise<void> {
  // One for each session: the next takes the place of the one before, also when several pages are open.
  const options = { tag: session, icon: "./icon-192.png", data: session };
  const worker = await navigator.serviceWorker?.getRegistration();
  if (worker) return worker.showNotification(text, options);
  const shown = new Notification(text, options);
  shown.onclick = () => window.focus();
}

createRoot(() => {
  createEffect<Map<Uri, Mood>>((before) => {
    const now = new Map(Object.values(sessions).map((session) => [session.resource, mood(session.status)]));
    if (!notifying() || document.visibilityState === "visible") return now;
    for (const [session, mood] of now) {
      const text = before.get(session) === "working" && !deleting[session] ? TEXTS[mood] : undefined;
      // A browser that changed its mind shows nothing.
      if (text) show(session, text).catch(() => setNotifying(false));
    }
    return now;
  }, new Map());
});
