/** Messages that were searched for, in all sessions. */
import { For, Show, createResource } from "solid-js";
import type { Hit } from "../ahp/types";
import { client, deleting, href, sessions, titleOf } from "../app";
import { visible } from "../text/plain";

/** So long nobody types on. */
const PAUSE = 200;

/** The words that were found stand out. Characters that are shown as their names do not move the marks: each piece is on its own. */
function Snippet(props: { hit: Hit }) {
  const pieces = () => {
    const { snippet, matches } = props.hit;
    const list: { text: string; found: boolean }[] = [];
    let at = 0;
    for (const [from, to] of matches) {
      list.push({ text: snippet.slice(at, from), found: false }, { text: snippet.slice(from, to), found: true });
      at = to;
    }
    return [...list, { text: snippet.slice(at), found: false }].filter((piece) => piece.text);
  };
  return <For each={pieces()}>{(piece) => (piece.found ? <mark>{visible(piece.text)}</mark> : visible(piece.text))}</For>;
}

export default function Hits(props: { query: string }) {
  const [hits] = createResource(
    () => props.query,
    async (text) => {
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
      if (text !== props.query) return [];
      const found = await client.request<{ hits: Hit[] }>("lodge/search", { text, limit: 40 });
      return found.hits;
    },
  );
  const shown = () => (hits.error ? [] : (hits.latest ?? [])).filter((hit) => sessions[hit.session] && !deleting[hit.session]);
  const link = (hit: Hit) => href({ view: "session", session: hit.session, chat: hit.chat, find: hit.snippet.replace(/^…|…$/g, "") });
  return (
    <section class="hits" aria-label="Messages" aria-busy={hits.loading}>
      <h2 class="hits-head">In messages</h2>
      <Show when={hits.error}>
        <p class="note side-note">{String(hits.error.message)}</p>
      </Show>
      <ul>
        <For each={shown()}>
          {(hit) => (
            <li class="hit">
              <a href={link(hit)}>
                <span class="hit-title">
                  {hit.role === "user" ? "You" : "Agent"} · {titleOf(sessions[hit.session])}
                </span>
                <span class="hit-text">
                  <Snippet hit={hit} />
                </span>
              </a>
            </li>
          )}
        </For>
      </ul>
      <Show when={!hits.loading && !hits.error && shown().length === 0}>
        <p class="note side-note">No message contains these words.</p>
      </Show>
    </section>
  );
}
