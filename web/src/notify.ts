/** Notifications of this browser while the page is open and not in sight. They say what happened, and nothing of what a session is about. */
import { createEffect, createRoot, createSignal } from "solid-js";
import type { Uri } from "./ahp/types";
import { deleting, mood, sessions, type Mood } from "./app";

export const NOTIFY = "lodge.notify";

/** Why there can be none; nothing where there can. */
export function impossible(): string | undefined {
  if (!isSecureContext) return "Browsers show notifications only for pages that come over HTTPS, or from the machine itself.";
  if (!("Notification" in window)) return "This browser shows no notifications of pages.";
  if (Notification.permission === "denied") return "This browser was told not to show notifications of this page.";
  return undefined;
}

export const [notifying, setNotifying] = createSignal(!impossible() && Notification.permission === "granted" && localStorage.getItem(NOTIFY) === "on");

export async function notify(on: boolean): Promise<void> {
  const allowed = on && (await Notification.requestPermission()) === "granted";
  if (allowed) localStorage.setItem(NOTIFY, "on");
  else localStorage.removeItem(NOTIFY);
  setNotifying(allowed);
}

const TEXTS: Partial<Record<Mood, string>> = {
  waiting: "A session waits for you",
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
