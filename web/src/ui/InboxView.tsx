/** Every open question of every session. */
import { For, Show, createMemo, createSignal, createEffect } from "solid-js";
import { answeredHere, directoryOf, href, inbox, sessions, titleOf, type Open } from "../app";
import { baseName, visible } from "../text/plain";
import { Empty } from "./parts";
import QuestionCard from "./QuestionCard";
import * as icons from "./icons";

/** How long a question that was answered stays, so that it does not vanish under a finger. */
const FAREWELL = 4000;

export default function InboxView() {
  const [gone, setGone] = createSignal<Open[]>([]);
  createEffect<Open[]>((before) => {
    const open = inbox();
    const ids = new Set(open.map((item) => item.request.id));
    const left = before.filter((item) => !ids.has(item.request.id));
    if (left.length > 0) {
      setGone((all) => [...all, ...left]);
      setTimeout(() => setGone((all) => all.filter((item) => !left.includes(item))), FAREWELL);
    }
    return open;
  }, []);
  const groups = createMemo(() => {
    const found = new Map<string, Open[]>();
    for (const item of inbox()) found.set(item.session, [...(found.get(item.session) ?? []), item]);
    return [...found];
  });
  return (
    <div class="page">
      <header class="page-head">
        <a class="icon back" href="#/" aria-label="All sessions">
          <icons.Back />
        </a>
        <h1>Inbox</h1>
        <span class="note">{inbox().length > 0 ? `${inbox().length} open` : ""}</span>
      </header>
      <div class="page-body">
        <For each={groups()}>
          {([session, items]) => (
            <section class="inbox-group">
              <h2>
                <a href={href({ view: "session", session })}>{titleOf(sessions[session])}</a>
                <span class="note">{visible(baseName(directoryOf(sessions[session] ?? {})))}</span>
              </h2>
              <For each={items}>{(item) => <QuestionCard open={item} directory={directoryOf(sessions[item.session] ?? {})} />}</For>
            </section>
          )}
        </For>
        <For each={gone()}>
          {(item) => (
            <p class="note answered">
              <icons.Check /> {answeredHere(item.request) ? "You answered a question" : "Someone else answered a question, or it was withdrawn,"} of “{titleOf(sessions[item.session])}”.
            </p>
          )}
        </For>
        <Show when={inbox().length === 0 && gone().length === 0}>
          <Empty icon={<icons.Inbox class="big" />} title="Nothing needs your attention">
            <p class="note">Answer the questions of all sessions here.</p>
          </Empty>
        </Show>
      </div>
    </div>
  );
}
