/** Changes of a file, below each other or side by side. */
import { For, Show, createMemo, createSignal } from "solid-js";
import { changedPart, sideBySide, type DiffLine, type FileDiff } from "../text/diff";
import { relativePath, visible } from "../text/plain";

const STORE = "lodge.diff";
/** Whether changes are shown side by side. The choice is for all of them. */
export const [split, setSplit] = createSignal(localStorage.getItem(STORE) === "split");

export function toggleSplit(): void {
  setSplit(!split());
  localStorage.setItem(STORE, split() ? "split" : "inline");
}

const WIDEST = 2000;
const cut = (text: string) => visible(text.length > WIDEST ? `${text.slice(0, WIDEST)}…` : text);

function Marked(props: { line: DiffLine; other?: DiffLine }) {
  const part = () => (props.other && props.line.kind !== "same" ? changedPart(props.line.text, props.other.text) : undefined);
  return (
    <Show when={props.line.text.length < WIDEST && part()} fallback={cut(props.line.text) || " "}>
      {(range) => {
        const end = () => props.line.text.length - range().tail;
        return (
          <>
            {visible(props.line.text.slice(0, range().head))}
            <mark>{visible(props.line.text.slice(range().head, end()))}</mark>
            {visible(props.line.text.slice(end()))}
          </>
        );
      }}
    </Show>
  );
}

const SIGN = { add: "+", del: "−", same: " " } as const;

interface Props {
  diff: FileDiff;
  directory?: string;
  /** Whether the name of the file is shown. */
  bare?: boolean;
  onLine?: (line: number, side: "before" | "after") => void;
}

export function Stat(props: { added: number; removed: number }) {
  return (
    <span class="stat">
      <Show when={props.added > 0}>
        <span class="plus">+{props.added}</span>
      </Show>
      <Show when={props.removed > 0}>
        <span class="minus">−{props.removed}</span>
      </Show>
    </span>
  );
}

export function DiffView(props: Props) {
  const name = () => relativePath(props.diff.after ?? props.diff.before ?? "", props.directory);
  return (
    <div class="diff">
      <Show when={!props.bare}>
        <div class="diff-head">
          <code class="path" title={visible(name())}>
            {visible(name())}
          </code>
          <Stat added={props.diff.added} removed={props.diff.removed} />
          <button type="button" class="link wide-only" onClick={toggleSplit}>
            {split() ? "Inline" : "Side by side"}
          </button>
        </div>
      </Show>
      <div class="diff-body" tabindex="0" role="group" aria-label={`Changes${name() ? ` of ${name()}` : ""}`}>
        <Show when={props.diff.note && props.diff.hunks.length === 0}>
          <p class="note">{visible(props.diff.note!)}</p>
        </Show>
        <For each={props.diff.hunks}>
          {(hunk, at) => (
            <>
              <Show when={at() > 0 || hunk.header}>
                <div class="hunk">⋯ {visible(hunk.header)}</div>
              </Show>
              <Show when={split()} fallback={<Inline lines={hunk.lines} onLine={props.onLine} />}>
                <Split lines={hunk.lines} onLine={props.onLine} />
              </Show>
            </>
          )}
        </For>
      </div>
    </div>
  );
}

function Number(props: { line: DiffLine; side: "before" | "after"; onLine?: Props["onLine"] }) {
  const value = () => props.line[props.side];
  return (
    <Show when={props.onLine && value() !== undefined} fallback={<span class="no">{value() ?? ""}</span>}>
      <button type="button" class="no" title="Comment on this line" aria-label={`Comment on line ${value()}`} onClick={() => props.onLine!(value()!, props.side)}>
        {value()}
      </button>
    </Show>
  );
}

/** Rows come in pieces, so that only those in sight are laid out. */
function chunks<T>(list: T[], size = 100): T[][] {
  const out: T[][] = [];
  for (let i = 0; i < list.length; i += size) out.push(list.slice(i, i + size));
  return out;
}

function Inline(props: { lines: DiffLine[]; onLine?: Props["onLine"] }) {
  const pairs = createMemo(() => {
    const other = new Map<DiffLine, DiffLine>();
    for (const { left, right } of sideBySide(props.lines)) {
      if (left && right && left !== right) {
        other.set(left, right);
        other.set(right, left);
      }
    }
    return other;
  });
  return (
    <For each={chunks(props.lines)}>
      {(chunk) => (
        <div class="rows">
          <For each={chunk}>
            {(line) => (
              <div class={`row ${line.kind}`}>
                <span class="no">{line.before ?? ""}</span>
                <Number line={line} side="after" onLine={props.onLine} />
                <span class="sign">{SIGN[line.kind]}</span>
                <span class="text">
                  <Marked line={line} other={pairs().get(line)} />
                </span>
              </div>
            )}
          </For>
        </div>
      )}
    </For>
  );
}

function Split(props: { lines: DiffLine[]; onLine?: Props["onLine"] }) {
  return (
    <For each={chunks(sideBySide(props.lines))}>
      {(chunk) => (
        <div class="rows">
          <For each={chunk}>
            {({ left, right }) => (
              <div class="pair">
                <div class={`row ${left?.kind ?? "none"}`}>
                  <span class="no">{left?.before ?? ""}</span>
                  <span class="text">{left && <Marked line={left} other={right} />}</span>
                </div>
                <div class={`row ${right?.kind ?? "none"}`}>
                  <Show when={right} fallback={<span class="no" />}>
                    {(line) => <Number line={line()} side="after" onLine={props.onLine} />}
                  </Show>
                  <span class="text">{right && <Marked line={right} other={left} />}</span>
                </div>
              </div>
            )}
          </For>
        </div>
      )}
    </For>
  );
}
