/** Coming in: pairing this browser with the host, and what it may do then. */

export type Role = "full" | "approve-only" | "view-only";

export interface Device {
  id: string;
  name: string;
  role: Role;
  created?: string;
  lastSeen?: string;
}

const KEY = "lodge.key";

/** Where the protocol is spoken. In development the page comes from another server, which passes this on. */
const PATH = import.meta.env.DEV ? "/ahp" : "/";

/** The host's token, in development only: a page that is served by the host pairs instead. */
const token = import.meta.env.DEV ? new URLSearchParams(location.search).get("tkn") : null;

export class PairingError extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/** The ticket of the link that opened this page. It is taken out of the address at once, because it is good only once. */
export function takeTicket(): string | undefined {
  if (!location.pathname.endsWith("/pair")) return undefined;
  const ticket = location.hash.slice(1);
  history.replaceState(null, "", location.pathname.replace(/pair$/, ""));
  return ticket || undefined;
}

function browserName(): string {
  const agent = navigator.userAgent;
  const browser = /Edg\//.test(agent)
    ? "Edge"
    : /Firefox\//.test(agent)
      ? "Firefox"
      : /Chrome\//.test(agent)
        ? "Chrome"
        : /Safari\//.test(agent)
          ? "Safari"
          : "A browser";
  const system = /iPhone/.test(agent)
    ? "iPhone"
    : /iPad/.test(agent)
      ? "iPad"
      : /Android/.test(agent)
        ? "Android"
        : /Mac OS/.test(agent)
          ? "Mac"
          : /Windows/.test(agent)
            ? "Windows"
            : "Linux";
  return `${browser} on ${system}`;
}

export async function pair(ticket: string): Promise<Device> {
  const response = await fetch("/pair", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ticket, name: browserName() }),
  });
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new PairingError(body.error ?? "unknown", body.message ?? `The host answered ${response.status}.`);
  localStorage.setItem(KEY, body.key);
  return body.device;
}

/** Who this browser is to the host; nothing when it is not paired. Fails when the host cannot be reached. */
export async function device(): Promise<Device | undefined> {
  if (token) return { id: "development", name: "Development", role: "full" };
  const key = localStorage.getItem(KEY);
  if (!key) return undefined;
  const response = await fetch("/device", { headers: { "X-Lodge-Key": key }, cache: "no-store" });
  if (response.ok) return response.json();
  if (response.status === 401) return undefined;
  throw new Error(`The host answered ${response.status}.`);
}

export async function unpair(): Promise<void> {
  const key = localStorage.getItem(KEY);
  if (key) await fetch("/unpair", { method: "POST", headers: { "X-Lodge-Key": key } });
  localStorage.removeItem(KEY);
}

export function socketUrl(): string {
  const url = new URL(PATH, location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  if (token) url.searchParams.set("tkn", token);
  else url.searchParams.set("key", localStorage.getItem(KEY) ?? "");
  return url.href;
}
