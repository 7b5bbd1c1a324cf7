/** The shells of a session. */
import { For, Show, createEffect, createMemo, createSignal, on, onCleanup, onMount } from "solid-js";
import { uuid } from "../ahp/client";
import type { SessionState, TerminalPart, TerminalState, Uri } from "../ahp/types";
import { client, complain, mayWrite, root } from "../app";
import { line } from "../text/plain";
import { PanelHead } from "./PanelHead";
import { Empty, Spinner } from "./parts";
import { openTerminal, type Screen } from "./screen";
import * as icons from "./icons";

interface Props {
  session: Uri;
  state: SessionState;
  chat: Uri;
  onClose: () => void;
}

export default function TerminalPanel(props: Props) {
  const mine = createMemo(() => (root.state()?.terminals ?? []).filter((terminal) => terminal.claim.session === props.session));
  const [chosen, setChosen] = createSignal<Uri>();
  const shown = () => mine().find((terminal) => terminal.resource === chosen())?.resource ?? mine().at(-1)?.resource;
  const [busy, setBusy] = createSignal(false);
  const open = async () => {
    setBusy(true);
    const terminal = `ahp-terminal:/${uuid()}`;
    try {
      await client.request("createTerminal", {
        channel: terminal,
        claim: { kind: "session", session: props.session, chat: props.chat },
        ...(props.state.workingDirectories?.[0] ? { cwd: props.state.workingDirectories[0] } : {}),
        cols: 80,
        rows: 24,
      });
      setChosen(terminal);
    } catch (error) {
      complain("Could not open the terminal", error);
    }
    setBusy(false);
  };
  const close = (terminal: Uri) => client.request("disposeTerminal", { channel: terminal }).catch((error) => complain("Could not close the terminal", error));
  return (
    <>
      <PanelHead title="Terminals" onClose={props.onClose}>
        <Show when={mayWrite()}>
          <button type="button" class="button compact" disabled={busy()} onClick={() => void open()}>
            <icons.Plus /> New
          </button>
        </Show>
      </PanelHead>
      <Show when={mine().length > 1}>
        <nav class="tabs" aria-label="Terminals">
          <For each={mine()}>
            {(terminal) => (
              <button type="button" aria-current={terminal.resource === shown() ? "page" : undefined} onClick={() => setChosen(terminal.resource)}>
                {line(terminal.title) || "Shell"}
                <Show when={terminal.lifecycle.status === "exited"}>
                  <span class="chip">ended</span>
                </Show>
              </button>
            )}
          </For>
        </nav>
      </Show>
      <Show
        when={shown()}
        keyed
        fallback={
          <Empty icon={<icons.Terminal class="big" />} title="No open terminals">
            <p class="note">Commands of the agent appear here while they run.</p>
          </Empty>
        }
      >
        {(terminal) => <TerminalView uri={terminal} onEnd={() => void close(terminal)} writable={mayWrite()} />}
      </Show>
    </>
  );
}

const text = (part: TerminalPart) => (part.type === "command" ? part.output : part.value);

/** Keys that phones have no buttons for. */
const KEYS: [string, string][] = [
  ["Esc", "\u001b"],
  ["Tab", "\t"],
  ["Ctrl+C", "\u0003"],
  ["Ctrl+D", "\u0004"],
  ["↑", "\u001b[A"],
  ["↓", "\u001b[B"],
  ["←", "\u001b[D"],
  ["→", "\u001b[C"],
];

function TerminalView(props: { uri: Uri; writable: boolean; onEnd: () => void }) {
  const view = client.view<TerminalState>(props.uri);
  onCleanup(view.release);
  let box!: HTMLDivElement;
  let screen: Screen | undefined;
  const [ready, setReady] = createSignal(false);
  const [query, setQuery] = createSignal("");
  const type = (data: string) => props.writable && client.fire(props.uri, { type: "terminal/input", data });
  const repaint = () => {
    const state = view.state();
    if (!screen || !state) return;
    screen.reset();
    screen.write(state.content.map(text).join(""));
  };
  onMount(async () => {
    screen = await openTerminal(box, {
      onData: type,
      onResize: (cols, rows) => props.writable && client.fire(props.uri, { type: "terminal/resized", cols, rows }),
    });
    setReady(true);
  });
  onCleanup(() => screen?.dispose());
  createEffect(
    on([ready, view.state], ([ready, state]) => {
      if (!ready || !state) return;
      repaint();
      const stop = client.listen(
        props.uri,
        (action) => {
          if (action.type === "terminal/data") screen?.write(action.data);
          else if (action.type === "terminal/cleared") screen?.reset();
        },
        repaint,
      );
      onCleanup(stop);
      if (matchMedia("(hover: hover)").matches) screen?.focus();
    }),
  );
  const ended = () => view.state()?.lifecycle.status === "exited";
  return (
    <div class="terminal">
      <div class="terminal-bar">
        <span class="note grow">
          {line(view.state()?.title ?? "")}
          <Show when={ended()}> · ended{view.state()?.lifecycle.exitCode !== undefined ? ` with ${view.state()!.lifecycle.exitCode}` : ""}</Show>
        </span>
        <input
          class="terminal-search"
          type="search"
          placeholder="Search"
          aria-label="Search the terminal"
          value={query()}
          onInput={(event) => {
            setQuery(event.currentTarget.value);
            screen?.find(query());
          }}
          onKeyDown={(event) => event.key === "Enter" && screen?.find(query(), event.shiftKey)}
        />
        <Show when={props.writable}>
          <button type="button" class="icon small" aria-label="Close this terminal" title="Close this terminal" onClick={props.onEnd}>
            <icons.Trash />
          </button>
        </Show>
      </div>
      <Show when={!ready()}>
        <p class="note panel-note">
          <Spinner label="Loading the terminal" /> Loading the terminal…
        </p>
      </Show>
      <div class="terminal-screen" ref={box} />
      <Show when={props.writable && !ended()}>
        <div class="terminal-keys" role="toolbar" aria-label="Keys">
          <For each={KEYS}>
            {([name, data]) => (
              <button type="button" class="key" onClick={() => {
                type(data);
                screen?.focus();
              }}>
                {name}
              </button>
            )}
          </For>
        </div>
      </Show>
    </div>
  );
}

