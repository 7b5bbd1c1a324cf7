/** What a command printed. Long output shows its end first, and everything on request. */
import { For, Show, createMemo, createSignal } from "solid-js";
import { spans } from "../text/ansi";
import { plural } from "../text/plain";
import { CopyButton } from "./parts";
import { pieces } from "./Markdown";

const SHORT = 12;
/** A line that is longer is cut: a megabyte without a line end would stop the page. */
const WIDEST = 4000;

function narrow(text: string): string {
  if (text.length <= WIDEST) return text;
  return text
    .split("\n")
    .map((line) => (line.length > WIDEST ? `${line.slice(0, WIDEST)}… (${line.length - WIDEST} more characters)` : line))
    .join("\n");
}

export function Output(props: { text: string; label?: string; live?: boolean }) {
  const [all, setAll] = createSignal(false);
  const lines = createMemo(() => props.text.replace(/\n+$/, "").split("\n"));
  const hidden = () => (all() ? 0 : Math.max(0, lines().length - SHORT));
  const shown = createMemo(() => narrow(hidden() > 0 ? (props.live ? lines().slice(-SHORT) : lines().slice(0, SHORT)).join("\n") : lines().join("\n")));
  return (
    <div class="output">
      <pre tabindex="0" role="group" aria-label={props.label ?? "Output"}>
        <For each={pieces(shown())}>
          {(piece) => (
            <span class="piece">
              <For each={spans(piece)}>{(span) => <span class={span.classes || undefined}>{span.text}</span>}</For>
            </span>
          )}
        </For>
      </pre>
      <CopyButton class="output-copy" text={() => props.text} label="Copy output" />
      <Show when={hidden() > 0 || all()}>
        <button type="button" class="link" onClick={() => setAll(!all())}>
          {all() ? "Show less" : `Show ${plural(hidden(), "more line")}`}
        </button>
      </Show>
    </div>
  );
}
