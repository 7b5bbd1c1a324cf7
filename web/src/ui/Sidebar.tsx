/** All sessions, live: what works, what waits, what failed. */
import { For, Show, Suspense, createMemo, createSignal, lazy } from "solid-js";
import { Dynamic } from "solid-js/web";
import type { SessionSummary, Uri } from "../ahp/types";
import {
  archive,
  archived,
  deleteSession,
  deleting,
  directoryOf,
  href,
  inbox,
  isPinned,
  listed,
  mayWrite,
  mood,
  MOODS,
  narrow,
  now,
  pin,
  place,
  pinned,
  sessionPlace,
  sessions,
  titleOf,
  unread,
} from "../app";
import { ago, baseName, line, visible } from "../text/plain";
import { Menu, MoodDot } from "./parts";
import { Stat } from "./DiffView";
import * as icons from "./icons";

const RenameDialog = lazy(() => import("./RenameDialog"));
const Hits = lazy(() => import("./Hits"));

interface Group {
  key: string;
  label: string;
  title: string;
  sessions: SessionSummary[];
}

const FOLDED = "lodge.folded";

export function Sidebar(props: { onPalette: () => void }) {
  const [query, setQuery] = createSignal("");
  const [old, setOld] = createSignal(false);
  const [folded, setFolded] = createSignal<string[]>(JSON.parse(localStorage.getItem(FOLDED) ?? "[]"));
  const [renaming, setRenaming] = createSignal<SessionSummary>();
  const fold = (key: string) => {
    setFolded(folded().includes(key) ? folded().filter((other) => other !== key) : [...folded(), key]);
    localStorage.setItem(FOLDED, JSON.stringify(folded()));
  };
  const all = createMemo(() => Object.values(sessions).filter((session) => !deleting[session.resource]));
  const found = createMemo(() => {
    const words = query().toLowerCase().split(/\s+/).filter(Boolean);
    return all()
      .filter((session) => (words.length > 0 ? true : archived(session) === old()))
      .filter((session) => {
        const text = `${session.title} ${directoryOf(session)} ${MOODS[mood(session.status)]}`.toLowerCase();
        return words.every((word) => text.includes(word));
      })
      .sort((a, b) => b.modifiedAt.localeCompare(a.modifiedAt));
  });
  const groups = createMemo<Group[]>(() => {
    const pins = new Set(pinned());
    const list: Group[] = [];
    const byKey = new Map<string, Group>();
    const put = (key: string, label: string, title: string, session: SessionSummary) => {
      let group = byKey.get(key);
      if (!group) {
        group = { key, label, title, sessions: [] };
        byKey.set(key, group);
        list.push(group);
      }
      group.sessions.push(session);
    };
    for (const session of found()) if (pins.has(session.resource)) put("pinned", "Pinned", "Pinned sessions", session);
    for (const session of found()) {
      if (pins.has(session.resource)) continue;
      const directory = directoryOf(session);
      put(directory, baseName(directory) || "No directory", directory, session);
    }
    return list;
  });
  const archivedCount = () => all().filter(archived).length;
  return (
    <div class="sidebar" aria-label="Sessions" role={narrow() && place().view === "home" ? "main" : "navigation"}>
      <div class="side-head">
        <a class="brand" href="#/" aria-label="Lodge, all sessions">
          <icons.Lodge /> <Dynamic component={place().view === "home" ? "h1" : "span"}>Lodge</Dynamic>
        </a>
        <span class="grow" />
        <button type="button" class="icon" aria-label="Find everything" title="Find everything (Ctrl+K)" onClick={props.onPalette}>
          <icons.Menu />
        </button>
        <Show when={mayWrite()}>
          <a class="button primary compact" href="#/new">
            <icons.Plus /> New
          </a>
        </Show>
      </div>
      <div class="side-search">
        <icons.Search />
        <input type="search" placeholder="Search everything" aria-label="Search sessions and messages" value={query()} onInput={(event) => setQuery(event.currentTarget.value)} />
      </div>
      <div class="side-list" tabindex="-1">
        <Show when={listed()} fallback={<p class="note side-note">Loading sessions…</p>}>
          <For each={groups()}>
            {(group) => (
              <section aria-label={group.title}>
                <button type="button" class="group" aria-expanded={!folded().includes(group.key)} title={group.title} onClick={() => fold(group.key)}>
                  <icons.Down class="fold" />
                  <span class="group-name">{visible(group.label)}</span>
                  <span class="group-count">{group.sessions.length}</span>
                </button>
                <Show when={!folded().includes(group.key)}>
                  <ul>
                    <For each={group.sessions}>{(session) => <Row session={session} onRename={() => setRenaming(session)} />}</For>
                  </ul>
                </Show>
              </section>
            )}
          </For>
          <Show when={groups().length === 0}>
            <p class="note side-note">
              {query() ? "No session matches." : old() ? "No archived sessions." : "No sessions yet."}
              <Show when={!query() && !old() && mayWrite()}>
                {" "}
                <a href="#/new">Start one</a>.
              </Show>
            </p>
          </Show>
          <Show when={query().trim().length > 1}>
            <Suspense>
              <Hits query={query().trim()} />
            </Suspense>
          </Show>
          <Show when={!query() && (archivedCount() > 0 || old())}>
            <button type="button" class="link side-more" onClick={() => setOld(!old())}>
              {old() ? "Back to open sessions" : `Archived (${archivedCount()})`}
            </button>
          </Show>
        </Show>
      </div>
      <div class="side-foot">
        <Tab view="home" label="Sessions" icon={<icons.Menu />} phone />
        <Tab view="inbox" label="Inbox" icon={<icons.Inbox />} count={inbox().length} />
        <Tab view="usage" label="Usage" icon={<icons.Chart />} />
        <Tab view="automations" label="Automations" icon={<icons.Clock />} />
        <Tab view="settings" label="Settings" icon={<icons.Gear />} />
      </div>
      <Show when={renaming()}>
        {(session) => (
          <Suspense>
            <RenameDialog session={session().resource} title={session().title} onClose={() => setRenaming(undefined)} />
          </Suspense>
        )}
      </Show>
    </div>
  );
}

function Tab(props: { view: "home" | "inbox" | "usage" | "automations" | "settings"; label: string; icon: import("solid-js").JSX.Element; count?: number; phone?: boolean }) {
  return (
    <a class="tab" classList={{ "phone-only": props.phone }} href={href({ view: props.view })} aria-current={place().view === props.view ? "page" : undefined}>
      {props.icon}
      <span>{props.label}</span>
      <Show when={props.count}>
        <span class="badge" aria-label={`${props.count} waiting`}>
          {props.count}
        </span>
      </Show>
    </a>
  );
}

function Row(props: { session: SessionSummary; onRename: () => void }) {
  const uri = (): Uri => props.session.resource;
  const current = () => sessionPlace()?.session === uri();
  const state = () => mood(props.session.status);
  const second = () => {
    const activity = props.session.activity && line(props.session.activity);
    if (state() === "waiting") return MOODS.waiting;
    if (activity && state() === "working") return activity;
    if (state() !== "idle") return MOODS[state()];
    return "";
  };
  return (
    <li class="session-row" classList={{ current: current() }}>
      <a href={href({ view: "session", session: uri() })} aria-current={current() ? "page" : undefined}>
        <MoodDot mood={state()} unread={unread(props.session)} />
        <span class="row-text">
          <span class="row-title" classList={{ unread: unread(props.session) && state() === "idle" }}>
            {titleOf(props.session)}
          </span>
          <span class="row-note">
            <Show when={second()}>
              <span class={`row-state ${state()}`}>{second()}</span>
            </Show>
            <span>{ago(props.session.modifiedAt, now())}</span>
            <Show when={props.session.changes}>
              {(changes) => <Stat added={changes().additions ?? 0} removed={changes().deletions ?? 0} />}
            </Show>
          </span>
        </span>
      </a>
      <Show when={mayWrite()}>
        <Menu
          class="small row-menu"
          label={`Actions for ${titleOf(props.session)}`}
          items={[
            { label: isPinned(uri()) ? "Unpin" : "Pin", icon: icons.Pin, run: () => pin(uri(), !isPinned(uri())) },
            { label: "Rename", icon: icons.Edit, run: props.onRename },
            {
              label: archived(props.session) ? "Unarchive" : "Archive",
              icon: icons.Archive,
              run: () => archive(uri(), !archived(props.session)),
            },
            { label: "Delete", icon: icons.Trash, danger: true, run: () => deleteSession(uri()) },
          ]}
        />
      </Show>
    </li>
  );
}
