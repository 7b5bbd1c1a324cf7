/** Where messages are written. What is typed is kept until the host has it. */
import { For, Show, createEffect, createMemo, createSignal, on, onCleanup, untrack } from "solid-js";
import { Status, type Attachment, type ChatState, type CompletionItem, type Message, type SessionState, type Uri } from "../ahp/types";
import { uuid } from "../ahp/client";
import { act, client, complain, toast } from "../app";
import { contextOf } from "../cost";
import { count, line, visible } from "../text/plain";
import { attach } from "./attach";
import { Attachments } from "./TurnView";
import * as icons from "./icons";

/** Whether the keyboard is on the screen: then Enter makes a line, and a button sends. */
const touch = matchMedia("(hover: none) and (pointer: coarse)");

export interface Outgoing {
  id: string;
  message: Message;
}

interface Props {
  session: Uri;
  chat: Uri;
  state: ChatState;
  sessionState: SessionState;
  /** A message that is to be said again, changed. */
  editing: { turnId: string; message: Message } | undefined;
  onEdited: () => void;
  onSending: (outgoing: Outgoing) => void;
  onSettled: (id: string) => void;
}

const draftKey = (chat: Uri) => `lodge.draft.${chat}`;

/** Whether the characters of `word` stand in `text` in this order. */
function contains(text: string, word: string): boolean {
  let at = 0;
  return [...word].every((character) => (at = text.indexOf(character, at) + 1) > 0);
}

export function Composer(props: Props) {
  let field!: HTMLTextAreaElement;
  let picker!: HTMLInputElement;
  const [text, setText] = createSignal("");
  const [attachments, setAttachments] = createSignal<Attachment[]>([]);
  const [offered, setItems] = createSignal<CompletionItem[]>([]);
  const [chosen, setChosen] = createSignal(0);
  const busy = () => Boolean(props.state.status & Status.InProgress);
  const empty = () => text().trim() === "" && attachments().length === 0;

  // --- drafts
  let draftTimer: ReturnType<typeof setTimeout> | undefined;
  let shared = "";
  const keepDraft = (value: string) => {
    if (value) localStorage.setItem(draftKey(props.chat), value);
    else localStorage.removeItem(draftKey(props.chat));
    clearTimeout(draftTimer);
    const chat = props.chat;
    draftTimer = setTimeout(() => {
      if (value === shared || client.phase() !== "online") return;
      shared = value;
      client.fire(chat, { type: "chat/draftChanged", ...(value ? { draft: { text: value, origin: { kind: "user" } } } : {}) });
    }, 900);
  };
  const write = (value: string) => {
    setText(value);
    keepDraft(value);
  };
  createEffect(
    on(
      () => props.chat,
      (chat) => {
        shared = untrack(() => props.state.draft?.text ?? "");
        setText(localStorage.getItem(draftKey(chat)) ?? shared);
        setAttachments([]);
        setItems([]);
        if (!touch.matches) queueMicrotask(() => field.focus({ preventScroll: true }));
      },
    ),
  );
  onCleanup(() => clearTimeout(draftTimer));
  createEffect(() => {
    const editing = props.editing;
    if (!editing) return;
    write(editing.message.text);
    setAttachments(editing.message.attachments ?? []);
    queueMicrotask(() => field.focus());
  });

  // --- completion
  let asked = 0;
  /** Where the caret was when the offered items were asked for. The person may have typed on since. */
  let offeredAt = 0;
  /** The offered items that fit the word as it is by now: Enter must not insert what fitted only its beginning. */
  const items = createMemo(() => {
    const word = /\S*$/.exec(text().slice(0, field?.selectionStart))![0].slice(1).toLowerCase();
    return offered().filter((item) => contains(`${item.insertText} ${item.attachment.label}`.toLowerCase(), word));
  });
  const complete = async () => {
    const triggers = client.host()?.completionTriggerCharacters ?? [];
    const offset = field.selectionStart;
    const word = /\S*$/.exec(field.value.slice(0, offset))![0];
    const turn = ++asked;
    if (!word || !triggers.includes(word[0]!) || (word[0] === "/" && offset !== word.length)) return setItems([]);
    try {
      const result = await client.request<{ items: CompletionItem[] }>("completions", {
        channel: props.chat,
        kind: "userMessage",
        text: field.value,
        offset,
      });
      if (turn !== asked) return;
      offeredAt = offset;
      setItems(result.items.slice(0, 50));
      setChosen(0);
    } catch {
      setItems([]);
    }
  };
  const take = (item: CompletionItem) => {
    const caret = field.selectionStart;
    const from = item.rangeStart ?? caret;
    const to = Math.max(from, (item.rangeEnd ?? offeredAt) + caret - offeredAt);
    ++asked;
    const insert = item.insertText.endsWith(" ") ? item.insertText : `${item.insertText} `;
    write(text().slice(0, from) + insert + text().slice(to));
    setItems([]);
    if (item.attachment.type !== "simple") setAttachments((all) => [...all, item.attachment]);
    queueMicrotask(() => {
      field.focus();
      field.setSelectionRange(from + insert.length, from + insert.length);
    });
  };

  // --- attachments
  const addFiles = async (files: Iterable<File>) => {
    for (const file of files) {
      try {
        const made = await attach(file);
        setAttachments((all) => [...all, made]);
      } catch (error) {
        complain(`${file.name} was not attached`, error);
      }
    }
  };

  // --- sending
  const used = () => attachments().filter((item) => item.type === "embeddedResource" || text().includes(item.label));
  const send = async (kind: "turn" | "queued" | "steering") => {
    if (empty()) return;
    const message: Message = {
      text: text().trim(),
      origin: { kind: "user" },
      ...(used().length ? { attachments: used() } : {}),
    };
    const before = { text: text(), attachments: attachments() };
    const editing = props.editing;
    const id = uuid();
    const { chat } = props;
    write("");
    setAttachments([]);
    setItems([]);
    props.onSending({ id, message });
    if (editing) {
      const turns = props.state.turns;
      const at = turns.findIndex((turn) => turn.id === editing.turnId);
      props.onEdited();
      const turnId = at > 0 ? turns[at - 1]!.id : undefined;
      const cut = await act(chat, { type: "chat/truncated", ...(turnId ? { turnId } : {}) }, "Not rewound");
      if (!cut.accepted) return props.onSettled(id);
    }
    const outcome = await client.dispatch(
      chat,
      kind === "turn"
        ? { type: "chat/turnStarted", turnId: id, startedAt: new Date().toISOString(), message }
        : { type: "chat/pendingMessageSet", kind, id, message },
    );
    props.onSettled(id);
    if (outcome.accepted) return;
    toast(`Not sent: ${outcome.reason}`, { kind: "error" });
    if (chat === props.chat && text() === "") {
      write(before.text);
      setAttachments(before.attachments);
    }
  };
  const stop = () => {
    const turn = props.state.activeTurn;
    if (!turn) return;
    const duration = Math.max(0, Date.now() - Date.parse(turn.startedAt ?? ""));
    void act(props.chat, { type: "chat/turnCancelled", turnId: turn.id, duration: Number.isFinite(duration) ? duration : 0 }, "Not stopped");
  };

  // --- earlier messages, by the arrow up
  const [past, setPast] = createSignal(-1);
  const recall = (step: number) => {
    const said = props.state.turns.filter((turn) => turn.message.origin.kind === "user").map((turn) => turn.message.text);
    const at = Math.max(-1, Math.min(said.length - 1, past() + step));
    setPast(at);
    write(at < 0 ? "" : said[said.length - 1 - at]!);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    if (items().length > 0) {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        setChosen((chosen() + (event.key === "ArrowDown" ? 1 : -1) + items().length) % items().length);
        return;
      }
      if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey)) {
        event.preventDefault();
        take(items()[chosen()]!);
        return;
      }
      if (event.key === "Escape") {
        event.preventDefault();
        setItems([]);
        return;
      }
    }
    if (event.key === "Enter" && !event.shiftKey && (!touch.matches || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void send(busy() ? (event.ctrlKey || event.metaKey ? "steering" : "queued") : "turn");
    } else if (event.key === "ArrowUp" && (text() === "" || past() >= 0) && field.selectionStart === 0) {
      event.preventDefault();
      recall(1);
    } else if (event.key === "ArrowDown" && past() >= 0) {
      event.preventDefault();
      recall(-1);
    } else if (event.key === "Escape" && props.editing) {
      props.onEdited();
      write("");
    }
  };

  const settings = createMemo(() =>
    Object.entries(props.sessionState.config?.schema.properties ?? {}).filter(
      ([, property]) => property.sessionMutable && !property.readOnly && (property.enum?.length ?? 0) > 1,
    ),
  );
  const context = createMemo(() => {
    const { activeTurn, turns } = props.state;
    const found = contextOf(activeTurn?.usage) ?? contextOf(turns.at(-1)?.usage);
    return found && { ...found, share: Math.round((found.used / found.size) * 100) };
  });
  const configure = (name: string, value: string) =>
    void act(props.session, { type: "session/configChanged", config: { [name]: value } }, "The setting was not changed");

  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        void send(busy() ? "queued" : "turn");
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void addFiles(event.dataTransfer?.files ?? []);
      }}
    >
      <Show when={items().length > 0}>
        <ul class="completions" role="listbox" id="completions" aria-label="Suggestions">
          <For each={items()}>
            {(item, at) => (
              <li
                role="option"
                id={`completion-${at()}`}
                aria-selected={at() === chosen()}
                ref={(element) => createEffect(() => at() === chosen() && element.scrollIntoView({ block: "nearest" }))}
                onMouseDown={(event) => {
                  event.preventDefault();
                  take(item);
                }}
              >
                <span class="completion-label">{line(item.attachment.label)}</span>
                <span class="completion-note">{visible(String(item.attachment._meta?.description ?? (item.attachment.uri ? decodeURIComponent(item.attachment.uri.replace(/^file:\/\//, "")) : "")))}</span>
              </li>
            )}
          </For>
        </ul>
      </Show>
      <Show when={props.editing}>
        <div class="editing">
          <icons.Edit />
          <span class="grow">Edit and resend: later messages are removed.</span>
          <button
            type="button"
            class="link"
            onClick={() => {
              props.onEdited();
              write("");
            }}
          >
            Cancel
          </button>
        </div>
      </Show>
      <Attachments list={attachments()} onRemove={(at) => setAttachments((all) => all.filter((_, other) => other !== at))} />
      <textarea
        ref={field}
        class="composer-field"
        rows="1"
        value={text()}
        aria-label="Message"
        aria-controls={items().length > 0 ? "completions" : undefined}
        aria-activedescendant={items().length > 0 ? `completion-${chosen()}` : undefined}
        placeholder={busy() ? "Queue a message…" : "Message, @file, /command or !shell"}
        enterkeyhint={touch.matches ? "enter" : "send"}
        onInput={(event) => {
          setPast(-1);
          setChosen(0);
          write(event.currentTarget.value);
          void complete();
        }}
        onKeyDown={onKeyDown}
        onBlur={() => setItems([])}
        onPaste={(event) => {
          const files = [...(event.clipboardData?.files ?? [])];
          if (files.length === 0) return;
          event.preventDefault();
          void addFiles(files);
        }}
      />
      <div class="composer-bar">
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label="Files to attach"
          onChange={(event) => {
            void addFiles([...(event.currentTarget.files ?? [])]);
            event.currentTarget.value = "";
          }}
        />
        <button type="button" class="icon" aria-label="Attach files" title="Attach files" onClick={() => picker.click()}>
          <icons.Clip />
        </button>
        <div class="composer-settings">
          <For each={settings()}>
            {([name, property]) => (
              <select
                class="quiet-select"
                classList={{ strong: name === "autoApprove" && props.sessionState.config?.values[name] !== property.default }}
                aria-label={property.title}
                title={property.description ?? property.title}
                onChange={(event) => configure(name, event.currentTarget.value)}
              >
                <For each={property.enum}>
                  {(value, at) => (
                    <option value={value} selected={(props.sessionState.config?.values[name] ?? property.default) === value}>
                      {visible(property.enumLabels?.[at()] ?? value)}
                    </option>
                  )}
                </For>
              </select>
            )}
          </For>
        </div>
        <span class="grow" />
        <Show when={context()}>
          {(context) => (
            <span class="context-used" classList={{ strong: context().share > 80 }} title={`${count(context().used)} of ${count(context().size)} tokens of the model's window are used`}>
              {context().share} %<span class="wide-only"> context</span>
            </span>
          )}
        </Show>
        <Show when={busy()}>
          <Show when={!empty()}>
            <button type="button" class="button" title="Send now, in the middle of the turn (Ctrl+Enter)" onClick={() => void send("steering")}>
              Steer
            </button>
          </Show>
          <button type="button" class="icon stop" aria-label="Stop" title="Stop" onClick={stop}>
            <icons.Stop />
          </button>
        </Show>
        <Show when={!busy() || !empty()}>
          <button type="submit" class="icon send" disabled={empty()} aria-label={busy() ? "Queue" : "Send"} title={busy() ? "Queue" : "Send"}>
            <icons.Send />
          </button>
        </Show>
      </div>
    </form>
  );
}
