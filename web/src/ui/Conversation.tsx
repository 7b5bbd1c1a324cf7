/** One session: its chat, its open questions, the field to write in. */
import { For, Match, Show, Suspense, Switch, createEffect, createMemo, createSignal, lazy, on, onCleanup } from "solid-js";
import { Status, type ChatState, type InputNeeded, type Message, type SessionState, type Turn, type Uri } from "../ahp/types";
import {
  act,
  archive,
  archived,
  client,
  complain,
  deleteSession,
  directoryOf,
  fork,
  go,
  isPinned,
  markRead,
  mayWrite,
  mood,
  MOODS,
  narrow,
  others,
  pin,
  sessionPlace,
  sessions,
  titleOf,
  toast,
} from "../app";
import { baseName, line, plural, visible } from "../text/plain";
import { Composer, type Outgoing } from "./Composer";
import { Empty, Menu, MoodDot, Spinner, type MenuItem } from "./parts";
import { ChatContext, MessageView, TurnView } from "./TurnView";
import * as icons from "./icons";

const QuestionCard = lazy(() => import("./QuestionCard"));
const RenameDialog = lazy(() => import("./RenameDialog"));
const Todos = lazy(() => import("./Todos"));
const ChangesPanel = lazy(() => import("./ChangesPanel"));
const TerminalPanel = lazy(() => import("./TerminalPanel"));
const DetailsPanel = lazy(() => import("./DetailsPanel"));

/** How many turns are on the page at first, and how many more come when the reader scrolls up to them. */
const PAGE = 20;
/** So near to the end, new text keeps the end in sight. */
const NEAR = 120;

export function Conversation(props: { session: Uri }) {
  const view = client.view<SessionState>(props.session);
  onCleanup(view.release);
  const chatUri = () => sessionPlace()?.chat ?? view.state()?.defaultChat ?? view.state()?.chats[0]?.resource;
  return (
    <Show
      when={view.state()}
      fallback={
        <div class="main-fallback">
          <Show when={view.error()} fallback={<Spinner label="Loading the session" />}>
            <Empty title="Session not found">
              <p>{view.error()}</p>
              <a class="button" href="#/">
                All sessions
              </a>
            </Empty>
          </Show>
        </div>
      }
    >
      {(state) => (
        <Show when={chatUri()} keyed>
          {(chat) => <Chat session={props.session} sessionState={state()} chat={chat} />}
        </Show>
      )}
    </Show>
  );
}

function Header(props: { session: Uri; state: SessionState; chat: Uri; chatState?: ChatState; onRename: () => void }) {
  const summary = () => sessions[props.session];
  const status = () => summary()?.status ?? props.chatState?.status ?? props.state.status;
  const panel = () => sessionPlace()?.panel;
  const show = (name: string) => {
    const at = sessionPlace()!;
    go({ ...at, panel: at.panel === name ? undefined : name, turn: undefined }, Boolean(at.panel));
  };
  const lastTurn = () => props.chatState?.turns.at(-1)?.id;
  const panels: [string, string, typeof icons.Diff][] = [
    ["changes", "Changes", icons.Diff],
    ["terminal", "Terminals", icons.Terminal],
    ["details", "Details", icons.Chart],
  ];
  const items = (): MenuItem[] => [
    // A phone has no room for these beside the title.
    ...(narrow() ? panels.slice(1).map(([name, label, icon]) => ({ label, icon, run: () => show(name) })) : []),
    ...(mayWrite() ? own() : []),
  ];
  const own = (): MenuItem[] => [
    { label: isPinned(props.session) ? "Unpin" : "Pin", icon: icons.Pin, run: () => pin(props.session, !isPinned(props.session)) },
    { label: "Rename", icon: icons.Edit, run: props.onRename },
    ...(lastTurn() ? [{ label: "Fork", icon: icons.Fork, run: () => void fork(props.session, props.chat, lastTurn()!) }] : []),
    {
      label: archived({ status: status() }) ? "Unarchive" : "Archive",
      icon: icons.Archive,
      run: () => archive(props.session, !archived({ status: status() })),
    },
    { label: "Delete", icon: icons.Trash, danger: true, run: () => deleteSession(props.session) },
  ];
  const button = (name: string, label: string, Icon: typeof icons.Diff) => (
    <button type="button" class="icon" classList={{ on: panel() === name }} aria-pressed={panel() === name} aria-label={label} title={label} onClick={() => show(name)}>
      <Icon />
    </button>
  );
  return (
    <header class="chat-head">
      <a class="icon back" href="#/" aria-label="All sessions">
        <icons.Back />
      </a>
      <MoodDot mood={mood(status())} />
      <div class="chat-title">
        <h1 title={titleOf(props.state)}>{titleOf(props.state)}</h1>
        <p title={directoryOf(props.state)}>
          {visible(baseName(directoryOf(props.state)))}
          <Show when={props.state.config?.values.branch}> · {visible(String(props.state.config!.values.branch))}</Show>
          <span> · {line(props.chatState?.activity ?? props.state.activity ?? MOODS[mood(status())])}</span>
        </p>
      </div>
      <div class="chat-tools">
        <For each={narrow() ? panels.slice(0, 1) : panels}>{([name, label, icon]) => button(name, label, icon)}</For>
        <Show when={items().length > 0}>
          <Menu label="Session actions" items={items()} />
        </Show>
      </div>
    </header>
  );
}

function ChatTabs(props: { session: Uri; state: SessionState; chat: Uri }) {
  const chats = () => props.state.chats.filter((chat) => chat.origin?.kind !== "tool" && chat.interactivity !== "hidden");
  return (
    <Show when={chats().length > 1}>
      <nav class="tabs" aria-label="Chats in this session">
        <For each={chats()}>
          {(chat, at) => (
            <button
              type="button"
              aria-current={chat.resource === props.chat ? "page" : undefined}
              onClick={() => go({ view: "session", session: props.session, chat: chat.resource }, true)}
            >
              <MoodDot mood={mood(chat.status ?? Status.Idle)} />
              {line(chat.title) || (at() === 0 ? "Main" : `Chat ${at() + 1}`)}
            </button>
          )}
        </For>
      </nav>
    </Show>
  );
}

function Queue(props: { chat: Uri; state: ChatState }) {
  const waiting = () => [
    ...(props.state.steeringMessage ? [{ kind: "steering", ...props.state.steeringMessage }] : []),
    ...(props.state.queuedMessages ?? []).map((message) => ({ kind: "queued", ...message })),
  ];
  return (
    <Show when={waiting().length > 0}>
      <ol class="queue" aria-label="Queued messages">
        <For each={waiting()}>
          {(item) => (
            <li>
              <span class="chip">{item.kind === "steering" ? "Steering" : "Queued"}</span>
              <span class="queue-text">{line(item.message.text)}</span>
              <Show when={mayWrite()}>
                <button
                  type="button"
                  class="icon tiny"
                  aria-label="Remove this message"
                  onClick={() => void act(props.chat, { type: "chat/pendingMessageRemoved", kind: item.kind, id: item.id }, "Not removed")}
                >
                  <icons.Cross />
                </button>
              </Show>
            </li>
          )}
        </For>
      </ol>
    </Show>
  );
}

function Chat(props: { session: Uri; sessionState: SessionState; chat: Uri }) {
  const view = client.view<ChatState>(props.chat);
  onCleanup(view.release);
  const [renaming, setRenaming] = createSignal(false);
  const [sending, setSending] = createSignal<Outgoing[]>([]);
  const [editing, setEditing] = createSignal<{ turnId: string; message: Message }>();
  const directory = () => directoryOf(props.sessionState);
  const asked = () => (props.sessionState.inputNeeded ?? []).filter((request: InputNeeded) => request.kind !== "toolClientExecution");

  // Whoever looks at a session has read it.
  createEffect(() => {
    const summary = sessions[props.session];
    if (summary && !(summary.status & Status.IsRead) && client.phase() === "online" && document.visibilityState === "visible") markRead(props.session);
  });

  const context = {
    get session() {
      return props.session;
    },
    get chat() {
      return props.chat;
    },
    get directory() {
      return directory();
    },
    state: view.state,
    get showChanges() {
      const told = props.sessionState.changesets?.some((set) => set.changeKind === "turn");
      return told ? (turn: Turn) => go({ ...sessionPlace()!, panel: "changes", turn: turn.id }, Boolean(panel())) : undefined;
    },
    editTurn: (turn: Turn) => setEditing({ turnId: turn.id, message: turn.message }),
  };
  const panel = () => sessionPlace()?.panel;
  const closePanel = () => go({ ...sessionPlace()!, panel: undefined, turn: undefined }, true);

  return (
    <ChatContext.Provider value={context}>
      <div class="session" classList={{ "with-panel": Boolean(panel()) }}>
        <div class="chat">
          <Header session={props.session} state={props.sessionState} chat={props.chat} chatState={view.state()} onRename={() => setRenaming(true)} />
          <ChatTabs session={props.session} state={props.sessionState} chat={props.chat} />
          <Show when={view.state()} fallback={<div class="main-fallback">{view.error() ?? <Spinner label="Loading the chat" />}</div>}>
            {(state) => (
              <>
                <Transcript chat={props.chat} state={state()} sending={sending()} />
                <div class="dock">
                  <Show when={asked().length > 0}>
                    <div class="questions" role="region" aria-label={`${plural(asked().length, "question")} waiting for you`}>
                      <Suspense>
                        <For each={asked()}>{(request) => <QuestionCard open={{ session: props.session, request }} directory={directory()} />}</For>
                      </Suspense>
                    </div>
                  </Show>
                  <div role="status">
                    <For each={others().filter((other) => other.chat === props.chat)}>
                      {(other) => (
                        <p class="note answered">
                          <icons.Check /> {other.text}
                        </p>
                      )}
                    </For>
                  </div>
                  <Suspense>
                    <Todos chat={props.chat} state={state()} />
                  </Suspense>
                  <Queue chat={props.chat} state={state()} />
                  <Switch>
                    <Match when={state().interactivity === "read-only"}>
                      <p class="note center">This chat is run by an agent and can only be read.</p>
                    </Match>
                    <Match when={mayWrite()}>
                      <Composer
                        session={props.session}
                        chat={props.chat}
                        state={state()}
                        sessionState={props.sessionState}
                        editing={editing()}
                        onEdited={() => setEditing(undefined)}
                        onSending={(outgoing) => setSending((all) => [...all, outgoing])}
                        onSettled={(id) => setSending((all) => all.filter((other) => other.id !== id))}
                      />
                    </Match>
                  </Switch>
                </div>
              </>
            )}
          </Show>
        </div>
        <Show when={panel()}>
          {(name) => (
            <aside class="panel" aria-label={name()}>
              <Suspense fallback={<div class="main-fallback"><Spinner label="Loading" /></div>}>
                <Switch>
                  <Match when={name() === "changes"}>
                    <ChangesPanel session={props.session} state={props.sessionState} chat={props.chat} onClose={closePanel} />
                  </Match>
                  <Match when={name() === "terminal"}>
                    <TerminalPanel session={props.session} state={props.sessionState} chat={props.chat} onClose={closePanel} />
                  </Match>
                  <Match when={name() === "details"}>
                    <DetailsPanel session={props.session} state={props.sessionState} chat={view.state()} onClose={closePanel} />
                  </Match>
                </Switch>
              </Suspense>
            </aside>
          )}
        </Show>
      </div>
      <Show when={renaming()}>
        <Suspense>
          <RenameDialog session={props.session} title={props.sessionState.title} onClose={() => setRenaming(false)} />
        </Suspense>
      </Show>
    </ChatContext.Provider>
  );
}

/** Whether a turn has this text, as the host's search found it. */
function holds(turn: Turn, text: string): boolean {
  return turn.message.text.includes(text) || turn.responseParts.some((part) => part.kind === "markdown" && part.content.includes(text));
}

function Transcript(props: { chat: Uri; state: ChatState; sending: Outgoing[] }) {
  let scroller!: HTMLDivElement;
  let content!: HTMLDivElement;
  let top!: HTMLDivElement;
  const [size, setSize] = createSignal(PAGE);
  const [atEnd, setAtEnd] = createSignal(true);
  const [loading, setLoading] = createSignal(false);
  const turns = createMemo(() => {
    const all = props.state.turns;
    const list = all.slice(Math.max(0, all.length - size()));
    return props.state.activeTurn ? [...list, props.state.activeTurn] : list;
  });
  const more = () => size() < props.state.turns.length || props.state.turnsNextCursor !== undefined;
  const unsent = () => {
    const known = new Set([...props.state.turns.slice(-3).map((turn) => turn.id), props.state.activeTurn?.id]);
    return props.sending.filter((outgoing) => !known.has(outgoing.id));
  };

  /** Changes the list above what is in sight, and leaves that where it is. */
  const keepPlace = (change: () => void) => {
    const before = scroller.scrollHeight - scroller.scrollTop;
    change();
    scroller.scrollTop = scroller.scrollHeight - before;
  };

  const older = async () => {
    if (loading() || !more()) return;
    if (size() < props.state.turns.length) {
      keepPlace(() => setSize(size() + PAGE));
      return;
    }
    setLoading(true);
    const before = props.state.turns.length;
    try {
      await client.request("fetchTurns", { channel: props.chat, cursor: props.state.turnsNextCursor });
      const came = props.state.turns.length - before;
      keepPlace(() => setSize(size() + Math.max(PAGE, Math.min(came, PAGE * 2))));
    } catch (error) {
      complain("Could not load older messages", error);
    }
    setLoading(false);
  };

  const toEnd = () => {
    scroller.scrollTop = scroller.scrollHeight;
    setAtEnd(true);
  };
  const onScroll = () => {
    const end = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR;
    setAtEnd(end);
    // What was loaded on the way up leaves the page again, so that it stays light.
    if (end && size() > PAGE * 4) setSize(PAGE);
  };

  createEffect(
    on(
      () => props.chat,
      () => queueMicrotask(toEnd),
    ),
  );
  /** Shows the message that somebody searched for. It may be far up. */
  const seek = async (text: string) => {
    setAtEnd(false);
    for (;;) {
      const { turns, turnsNextCursor } = props.state;
      const at = turns.findLastIndex((turn) => holds(turn, text));
      if (at >= 0) {
        setSize(Math.max(size(), turns.length - at + 2));
        const show = () => content.querySelector(`[data-turn="${CSS.escape(turns[at]!.id)}"]`)?.scrollIntoView({ block: "start" });
        // Turns have their height only once they were in sight.
        show();
        requestAnimationFrame(show);
        return;
      }
      if (turnsNextCursor === undefined) return void toast("This message no longer exists, or a sub-agent wrote it.");
      await client.request("fetchTurns", { channel: props.chat, cursor: turnsNextCursor });
    }
  };
  createEffect(
    on(
      () => sessionPlace()?.find,
      (text) => text && queueMicrotask(() => seek(text).catch((error) => complain("Could not find the message", error))),
    ),
  );
  createEffect(
    on(
      () => props.sending.length,
      (n) => n > 0 && queueMicrotask(toEnd),
      { defer: true },
    ),
  );
  const follow = (element: HTMLDivElement) => {
    content = element;
    queueMicrotask(() => {
      const grown = new ResizeObserver(() => {
        if (atEnd()) scroller.scrollTop = scroller.scrollHeight;
      });
      grown.observe(content);
      grown.observe(scroller);
      const seen = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && void older(), {
        root: scroller,
        rootMargin: "600px 0px 0px",
      });
      seen.observe(top);
      disconnect = () => {
        grown.disconnect();
        seen.disconnect();
      };
    });
  };
  let disconnect = () => {};
  onCleanup(() => disconnect());

  return (
    <div class="transcript-box">
      <div class="transcript" ref={scroller} onScroll={onScroll} tabindex="0" role="log" aria-label="Conversation" aria-live="off">
        <div class="transcript-inner" ref={follow}>
          <div ref={top} class="older">
            <Show when={more()}>
              <button type="button" class="link" onClick={() => void older()}>
                {loading() ? "Loading older messages…" : "Show older messages"}
              </button>
            </Show>
          </div>
          <Show when={turns().length === 0 && unsent().length === 0}>
            <Empty icon={<icons.Lodge class="big" />} title="What should the agent do?">
              <p>
                Write a message below. <kbd>@</kbd> names a file, <kbd>/</kbd> a command, <kbd>!</kbd> runs a shell command.
              </p>
            </Empty>
          </Show>
          <For each={turns()}>{(turn) => <TurnView turn={turn} running={turn === props.state.activeTurn} />}</For>
          <For each={unsent()}>
            {(outgoing) => (
              <article class="turn unsent">
                <MessageView turn={{ id: outgoing.id, message: outgoing.message, responseParts: [] }} />
                <p class="note sending">
                  <Spinner label="Sending" />
                  {client.phase() === "online" ? "Sending…" : "Offline. It will be sent when the host is back."}
                </p>
              </article>
            )}
          </For>
          <Show when={props.state.backgroundWork?.length}>
            <ul class="background">
              <For each={props.state.backgroundWork}>
                {(work) => (
                  <li>
                    <Spinner label="Running in the background" />
                    {line(work.label)}
                  </li>
                )}
              </For>
            </ul>
          </Show>
        </div>
      </div>
      <Show when={!atEnd()}>
        <button type="button" class="to-end" onClick={toEnd}>
          <icons.Down /> Latest
        </button>
      </Show>
    </div>
  );
}
