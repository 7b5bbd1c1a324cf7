/**
 * Actions that must arrive exactly once. Each is kept, also over a reload of the page, until the host echoed or refused it,
 * and is sent again after a reconnect unless the host's state shows that it arrived.
 */
import type { Action, Uri } from "./types";

export interface Kept {
  clientSeq: number;
  channel: Uri;
  action: Action;
  /** Where open questions are listed, for answers: the chat itself may not be subscribed to. */
  session?: Uri;
}

export type Outcome = { accepted: true } | { accepted: false; reason: string };

interface Entry extends Kept {
  settle: (outcome: Outcome) => void;
}

const STORE = "lodge.outbox";

export class Outbox {
  #entries = new Map<number, Entry>();

  constructor() {
    const stored: Kept[] = JSON.parse(sessionStorage.getItem(STORE) ?? "[]");
    for (const kept of stored) this.#entries.set(kept.clientSeq, { ...kept, settle: () => {} });
  }

  /** The highest number that is in use. */
  get last(): number {
    return Math.max(0, ...this.#entries.keys());
  }

  get entries(): Kept[] {
    return [...this.#entries.values()];
  }

  add(kept: Kept): Promise<Outcome> {
    return new Promise((settle) => {
      this.#entries.set(kept.clientSeq, { ...kept, settle });
      this.#store();
    });
  }

  settle(clientSeq: number, outcome: Outcome): void {
    const entry = this.#entries.get(clientSeq);
    if (!entry) return;
    this.#entries.delete(clientSeq);
    this.#store();
    entry.settle(outcome);
  }

  #store(): void {
    const kept = this.entries.map(({ clientSeq, channel, action, session }) => ({ clientSeq, channel, action, session }));
    try {
      sessionStorage.setItem(STORE, JSON.stringify(kept));
    } catch {
      // A message with large attachments may not fit; it is still kept in memory.
    }
  }
}
