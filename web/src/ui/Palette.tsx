/** Everything by its name: sessions, views, commands. */
import { For, Show, createEffect, createMemo, createSignal } from "solid-js";
import { archive, archived, deleteSession, directoryOf, go, inbox, isPinned, mayWrite, mood, pin, sessionPlace, sessions, titleOf } from "../app";
import { baseName, visible } from "../text/plain";
import { Dialog, MoodDot } from "./parts";
import { setTheme } from "./theme";

interface Entry {
  label: string;
  note: string;
  mood?: ReturnType<typeof mood>;
  run: () => void;
}

export default function Palette(props: { onClose: () => void }) {
  const [query, setQuery] = createSignal("");
  const [at, setAt] = createSignal(0);
  let dialog: HTMLElement | undefined;
  const commands = (): Entry[] => {
    const list: Entry[] = [
      { label: "Inbox", note: inbox().length ? `${inbox().length} open` : "View", run: () => go({ view: "inbox" }) },
      { label: "Usage", note: "View", run: () => go({ view: "usage" }) },
      { label: "Automations", note: "View", run: () => go({ view: "automations" }) },
      { label: "Settings", note: "View", run: () => go({ view: "settings" }) },
      { label: "Light colours", note: "Appearance", run: () => setTheme("light") },
      { label: "Dark colours", note: "Appearance", run: () => setTheme("dark") },
      { label: "System colours", note: "Appearance", run: () => setTheme("system") },
    ];
    if (mayWrite()) list.unshift({ label: "New session", note: "Command", run: () => go({ view: "new" }) });
    const here = sessionPlace();
    const session = here && sessions[here.session];
    if (here && session) {
      for (const [label, panel] of [["Changes", "changes"], ["Terminals", "terminal"], ["Details", "details"]] as const)
        list.push({ label, note: "This session", run: () => go({ ...here, panel }) });
      if (mayWrite()) {
        list.push({ label: isPinned(here.session) ? "Unpin" : "Pin", note: "This session", run: () => pin(here.session, !isPinned(here.session)) });
        list.push({ label: archived(session) ? "Unarchive" : "Archive", note: "This session", run: () => archive(here.session, !archived(session)) });
        list.push({ label: "Delete", note: "This session", run: () => deleteSession(here.session) });
      }
    }
    return list;
  };
  const entries = createMemo<Entry[]>(() => {
    const words = query().toLowerCase().split(/\s+/).filter(Boolean);
    const all: Entry[] = [
      ...commands(),
      ...Object.values(sessions)
        .sort((a, b) => b.modifiedAt.localeCompare(a.modifiedAt))
        .map((session) => ({
          label: titleOf(session),
          note: baseName(directoryOf(session)),
          mood: mood(session.status),
          run: () => go({ view: "session", session: session.resource }),
        })),
    ];
    return all.filter((entry) => words.every((word) => `${entry.label} ${entry.note}`.toLowerCase().includes(word))).slice(0, 60);
  });
  const run = (entry: Entry | undefined) => {
    if (!entry) return;
    props.onClose();
    entry.run();
  };
  return (
    <Dialog title="Find everything" class="palette" onClose={props.onClose}>
      <div ref={(element) => (dialog = element)}>
        <input
          class="input"
          type="text"
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={`palette-${at()}`}
          aria-label="Find sessions and commands"
          placeholder="Find sessions and commands"
          autofocus
          value={query()}
          onInput={(event) => {
            setQuery(event.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={(event) => {
            if (event.key === "ArrowDown" || event.key === "ArrowUp") {
              event.preventDefault();
              const n = entries().length || 1;
              setAt((at() + (event.key === "ArrowDown" ? 1 : -1) + n) % n);
            } else if (event.key === "Enter") {
              event.preventDefault();
              run(entries()[at()]);
            }
          }}
        />
        <ul class="palette-list" id="palette-list" role="listbox" aria-label="Results">
          <For each={entries()}>
            {(entry, index) => (
              <li
                id={`palette-${index()}`}
                role="option"
                aria-selected={index() === at()}
                ref={(element) => createEffect(() => index() === at() && dialog && element.scrollIntoView({ block: "nearest" }))}
                onClick={() => run(entry)}
              >
                <Show when={entry.mood}>{(mood) => <MoodDot mood={mood()} />}</Show>
                <span class="grow">{entry.label}</span>
                <span class="note">{visible(entry.note)}</span>
              </li>
            )}
          </For>
          <Show when={entries().length === 0}>
            <li class="note" role="option" aria-selected="false">
              No matches.
            </li>
          </Show>
        </ul>
      </div>
    </Dialog>
  );
}
