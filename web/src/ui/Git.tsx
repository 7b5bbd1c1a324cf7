/** Branch, commit and push: shell commands of the session, as people type them after the prefix, and shown like those. */
import { Show, createSignal } from "solid-js";
import { uuid } from "../ahp/client";
import type { Uri } from "../ahp/types";
import { act, client, toast } from "../app";
import { Dialog, Menu } from "./parts";
import * as icons from "./icons";

type Kind = "branch" | "commit" | "push";

const TEXTS: Record<Kind, { title: string; label?: string; done: string }> = {
  branch: { title: "New branch", label: "Name", done: "Create branch" },
  commit: { title: "Commit", label: "Message", done: "Commit all changes" },
  push: { title: "Push", done: "Push" },
};

/** One word for a shell, whatever it holds. */
const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

export function command(kind: Kind, text: string): string {
  if (kind === "branch") return `git switch -c ${quote(text)}`;
  if (kind === "commit") return `git add -A && git commit -m ${quote(text)}`;
  return "git push -u origin HEAD";
}

/** `onShow` brings the conversation into sight, where it is not beside this. */
export function Git(props: { chat: Uri; onShow?: () => void }) {
  const [kind, setKind] = createSignal<Kind>();
  const [text, setText] = createSignal("");
  const ask = (kind: Kind) => {
    setText("");
    setKind(kind);
  };
  const ready = (kind: Kind) => !TEXTS[kind].label || text().trim() !== "";
  const run = async (kind: Kind) => {
    setKind(undefined);
    const message = { text: `${client.host()?.terminalCommandPrefix}${command(kind, text().trim())}`, origin: { kind: "user" } };
    const outcome = await act(props.chat, { type: "chat/pendingMessageSet", kind: "queued", id: uuid(), message }, "Not run");
    if (outcome.accepted) toast(`${TEXTS[kind].title}: running in the session`, props.onShow ? { action: { label: "Show", run: props.onShow } } : {});
  };
  return (
    <Show when={client.host()?.terminalCommandPrefix}>
      <Menu
        label="Git"
        icon={<icons.Fork />}
        items={(["branch", "commit", "push"] as Kind[]).map((kind) => ({ label: kind === "push" ? "Push…" : `${TEXTS[kind].title}…`, run: () => ask(kind) }))}
      />
      <Show when={kind()} keyed>
        {(kind) => (
          <Dialog title={TEXTS[kind].title} onClose={() => setKind(undefined)}>
            <form
              class="stack"
              onSubmit={(event) => {
                event.preventDefault();
                if (ready(kind)) void run(kind);
              }}
            >
              <h2>{TEXTS[kind].title}</h2>
              <Show when={TEXTS[kind].label}>
                {(label) => (
                  <label class="field">
                    <span>{label()}</span>
                    <Show when={kind === "commit"} fallback={<input class="input mono" value={text()} onInput={(event) => setText(event.currentTarget.value)} autocapitalize="off" autocomplete="off" spellcheck={false} autofocus />}>
                      <textarea class="input" rows="3" value={text()} onInput={(event) => setText(event.currentTarget.value)} autofocus />
                    </Show>
                  </label>
                )}
              </Show>
              <div>
                <p class="note">This runs in the session's shell. The conversation shows the result:</p>
                <pre class="command">{command(kind, text().trim() || "…")}</pre>
              </div>
              <div class="actions">
                <button type="submit" class="button primary" disabled={!ready(kind)}>
                  {TEXTS[kind].done}
                </button>
                <button type="button" class="button" onClick={() => setKind(undefined)}>
                  Cancel
                </button>
              </div>
            </form>
          </Dialog>
        )}
      </Show>
    </Show>
  );
}
