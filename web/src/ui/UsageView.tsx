/** Tokens over time, by model and by session. */
import { For, Show, createEffect, createMemo, createSignal, on, onCleanup } from "solid-js";
import type { ChatState, Turn, Uri } from "../ahp/types";
import type { View } from "../ahp/client";
import { client, href, listed, sessions, titleOf } from "../app";
import { costOf, costOfAll, money, type Amount } from "../cost";
import { count, plural, visible } from "../text/plain";
import { BarChart } from "./BarChart";
import { Empty, Spinner } from "./parts";
import * as icons from "./icons";

/** Numbers are those of turns, which are read from the newest sessions. */
const SESSIONS = 30;
const DAYS = 14;

interface Used {
  session: Uri;
  turn: Turn;
}

interface Sum {
  in: number;
  out: number;
  turns: number;
  cost?: Amount;
}

const tokens = (turn: Turn) => (turn.usage?.inputTokens ?? 0) + (turn.usage?.outputTokens ?? 0);

export default function UsageView() {
  const [views, setViews] = createSignal<{ session: Uri; view: View<ChatState> }[]>([]);
  createEffect(
    on(listed, (ready) => {
      if (!ready) return;
      const newest = Object.values(sessions)
        .filter((session) => session.defaultChat)
        .sort((a, b) => b.modifiedAt.localeCompare(a.modifiedAt))
        .slice(0, SESSIONS);
      setViews(newest.map((session) => ({ session: session.resource, view: client.view<ChatState>(session.defaultChat!) })));
    }),
  );
  onCleanup(() => views().forEach(({ view }) => view.release()));
  const used = createMemo<Used[]>(() =>
    views().flatMap(({ session, view }) => (view.state()?.turns ?? []).filter((turn) => turn.usage).map((turn) => ({ session, turn }))),
  );
  const loaded = () => views().filter(({ view }) => view.state() || view.error()).length;
  const days = createMemo(() => {
    const list = Array.from({ length: DAYS }, (_, back) => {
      const day = new Date(Date.now() - (DAYS - 1 - back) * 86_400_000);
      return { key: day.toDateString(), label: day.toLocaleDateString("en", { day: "numeric", month: "short" }), parts: [0, 0, 0] };
    });
    for (const { turn } of used()) {
      const day = list.find((day) => day.key === new Date(turn.startedAt ?? 0).toDateString());
      if (!day || !turn.usage) continue;
      const cached = turn.usage.cacheReadTokens ?? 0;
      day.parts[0]! += cached;
      day.parts[1]! += Math.max(0, (turn.usage.inputTokens ?? 0) - cached);
      day.parts[2]! += turn.usage.outputTokens ?? 0;
    }
    return list;
  });
  const sums = (key: (item: Used) => string) => {
    const found = new Map<string, Sum>();
    for (const item of used()) {
      const sum: Sum = found.get(key(item)) ?? { in: 0, out: 0, turns: 0 };
      const cost = costOf(item.turn.usage);
      if (cost) sum.cost = { ...cost, sum: cost.sum + (sum.cost?.sum ?? 0) };
      sum.in += item.turn.usage?.inputTokens ?? 0;
      sum.out += item.turn.usage?.outputTokens ?? 0;
      sum.turns += 1;
      found.set(key(item), sum);
    }
    return [...found].sort((a, b) => b[1].in + b[1].out - a[1].in - a[1].out);
  };
  const cost = createMemo(() => costOfAll(used().map(({ turn }) => turn.usage)));
  const costs = createMemo(() =>
    days().map((day) => {
      const turns = used().filter(({ turn }) => new Date(turn.startedAt ?? 0).toDateString() === day.key);
      return { label: day.label, parts: [costOfAll(turns.map(({ turn }) => turn.usage))?.sum ?? 0] };
    }),
  );
  const models = createMemo(() => sums((item) => item.turn.usage?.model ?? "unknown"));
  const bySession = createMemo(() => sums((item) => item.session).slice(0, 12));
  const total = () => used().reduce((sum, { turn }) => sum + tokens(turn), 0);
  return (
    <div class="page">
      <header class="page-head">
        <a class="icon back" href="#/" aria-label="All sessions">
          <icons.Back />
        </a>
        <h1>Usage</h1>
        <span class="grow" />
        <Show when={loaded() < views().length}>
          <Spinner label="Reading sessions" />
        </Show>
      </header>
      <div class="page-body usage">
        <Show when={used().length > 0} fallback={<Empty icon={<icons.Chart class="big" />} title={loaded() < views().length ? "Reading sessions…" : "No usage yet"} />}>
          <p class="note">
            {count(total())} tokens in {plural(used().length, "turn")} of the newest {plural(views().length, "session")}
            <Show when={cost()}>{(cost) => <>, {money(cost())} as far as prices are known</>}</Show>
          </p>
          <BarChart label={`The last ${DAYS} days`} bars={days()} series={["Cached", "In", "Out"]} />
          <Show when={cost()}>{(cost) => <BarChart label="Cost" bars={costs()} series={["Cost"]} first={1} show={(sum) => money({ currency: cost().currency, sum })} />}</Show>
          <h2>By model</h2>
          <Table rows={models().map(([name, sum]) => ({ name: visible(name), ...sum }))} />
          <h2>By session</h2>
          <Table rows={bySession().map(([session, sum]) => ({ name: titleOf(sessions[session]), link: href({ view: "session", session }), ...sum }))} />
        </Show>
      </div>
    </div>
  );
}

function Table(props: { rows: (Sum & { name: string; link?: string })[] }) {
  const priced = () => props.rows.some((row) => row.cost);
  const most = () => Math.max(1, ...props.rows.map((row) => row.in + row.out));
  return (
    <div class="table usage-table" tabindex="0" role="group" aria-label="Numbers">
      <table>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col" class="right">
              Turns
            </th>
            <th scope="col" class="right">
              In
            </th>
            <th scope="col" class="right">
              Out
            </th>
            <Show when={priced()}>
              <th scope="col" class="right">
                Cost
              </th>
            </Show>
            <th scope="col" class="share">
              Share
            </th>
          </tr>
        </thead>
        <tbody>
          <For each={props.rows}>
            {(row) => (
              <tr>
                <td class="name">
                  <Show when={row.link} fallback={row.name}>
                    <a href={row.link}>{row.name}</a>
                  </Show>
                </td>
                <td class="right">{row.turns}</td>
                <td class="right">{count(row.in)}</td>
                <td class="right">{count(row.out)}</td>
                <Show when={priced()}>
                  <td class="right">{row.cost ? money(row.cost) : "–"}</td>
                </Show>
                <td class="share">
                  <progress max={most()} value={row.in + row.out} aria-label={`${count(row.in + row.out)} tokens`} />
                </td>
              </tr>
            )}
          </For>
        </tbody>
      </table>
    </div>
  );
}
