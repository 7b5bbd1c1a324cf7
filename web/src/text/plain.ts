/** Text from models, tools and file systems, made fit to be shown. */
import type { Text, Uri } from "../ahp/types";

/** What has no look of its own, changes the direction of what follows, or looks like a space and is none could hide what a text says, so it
 * is shown by its number. Tabs and line ends stay, and marks that some scripts and pictures are written with. */
const HIDDEN = /[^\P{C}\t\n\r\u200c-\u200f]|[\u115f\u1160\u2800\u3164\uffa0]/gu;

function named(char: string): string {
  return `⟨U+${char.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

export function visible(text: string): string {
  return text.replace(HIDDEN, named);
}

/** One line, for titles and names. */
export function line(text: string): string {
  return visible(text).replace(/\s+/g, " ").trim();
}

export function plain(text: Text | undefined): string {
  if (text === undefined) return "";
  return typeof text === "string" ? text : text.markdown;
}

export function pathOf(uri: Uri): string {
  if (!uri.startsWith("file://")) return uri;
  try {
    return decodeURIComponent(uri.slice("file://".length));
  } catch {
    return uri.slice("file://".length);
  }
}

export function fileUri(path: string): Uri {
  return `file://${path.split("/").map(encodeURIComponent).join("/")}`;
}

export function baseName(path: string): string {
  return path.replace(/\/+$/, "").split("/").pop() || path;
}

/** A path as people write it below a directory. */
export function relativePath(path: string, directory: string | undefined): string {
  if (directory && path.startsWith(`${directory}/`)) return path.slice(directory.length + 1);
  return path;
}

const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "narrow" });

export function ago(iso: string | undefined, now: number): string {
  if (!iso) return "";
  const seconds = (now - Date.parse(iso)) / 1000;
  if (seconds < 45) return "now";
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h`;
  if (seconds < 7 * 86_400) return `${Math.round(seconds / 86_400)} d`;
  return new Date(iso).toLocaleDateString("en", { day: "numeric", month: "short" });
}

export function until(iso: string, now: number): string {
  const minutes = Math.round((Date.parse(iso) - now) / 60_000);
  if (minutes < 60) return RELATIVE.format(minutes, "minute");
  if (minutes < 48 * 60) return RELATIVE.format(Math.round(minutes / 60), "hour");
  return RELATIVE.format(Math.round(minutes / 1440), "day");
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 60_000) return `${Math.round(ms / 1000)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.round((ms % 60_000) / 1000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function count(n: number): string {
  if (n < 1000) return String(n);
  if (n < 10_000) return `${(n / 1000).toFixed(1)}k`;
  if (n < 1_000_000) return `${Math.round(n / 1000)}k`;
  return `${(n / 1_000_000).toFixed(1)}M`;
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${n} ${n === 1 ? one : many}`;
}
