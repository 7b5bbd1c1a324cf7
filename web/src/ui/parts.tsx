/** Small parts that every view uses. */
import { For, Show, createSignal, createUniqueId, onCleanup, type JSX } from "solid-js";
import { MOODS, type Mood } from "../app";
import { inlineOf, type Inline } from "../text/markdown";
import { plain, visible } from "../text/plain";
import type { Text } from "../ahp/types";
import * as icons from "./icons";

export function MoodDot(props: { mood: Mood; unread?: boolean }) {
  return (
    <span class={`mood mood-${props.mood}`} classList={{ unread: props.unread }} role="img" aria-label={MOODS[props.mood]} title={MOODS[props.mood]} />
  );
}

export function Spinner(props: { label?: string }) {
  return <span class="spinner" role="status" aria-label={props.label ?? "Working"} />;
}

/** Runs of text with code and emphasis, such as the messages of tool calls. Links in them are text. */
export function Inlines(props: { text: Text | undefined }) {
  const draw = (inline: Inline): JSX.Element => {
    switch (inline.kind) {
      case "text":
        return visible(inline.text);
      case "code":
        return <code>{visible(inline.text)}</code>;
      case "break":
        return " ";
      case "image":
        return visible(inline.alt);
      case "strong":
        return <strong>{inline.children.map(draw)}</strong>;
      case "em":
        return <em>{inline.children.map(draw)}</em>;
      default:
        return inline.children.map(draw);
    }
  };
  return <>{inlineOf(plain(props.text)).map(draw)}</>;
}

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without a secure page there is no clipboard; the old way still works.
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "offscreen";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

export function CopyButton(props: { text: () => string; label?: string; class?: string }) {
  const [done, setDone] = createSignal(false);
  let timer: ReturnType<typeof setTimeout>;
  onCleanup(() => clearTimeout(timer));
  const label = () => (done() ? "Copied" : (props.label ?? "Copy"));
  return (
    <button
      type="button"
      class={`icon small ${props.class ?? ""}`}
      aria-label={label()}
      title={label()}
      onClick={async () => {
        if (!(await copyText(props.text()))) return;
        setDone(true);
        timer = setTimeout(() => setDone(false), 1500);
      }}
    >
      <Show when={done()} fallback={<icons.Copy />}>
        <icons.Check />
      </Show>
    </button>
  );
}

export interface MenuItem {
  label: string;
  icon?: (props: object) => JSX.Element;
  danger?: boolean;
  run: () => void;
}

/** A button that opens a list of things to do. */
export function Menu(props: { label: string; items: MenuItem[]; class?: string; icon?: JSX.Element }) {
  const id = createUniqueId();
  let list!: HTMLDivElement;
  let button!: HTMLButtonElement;
  const [open, setOpen] = createSignal(false);
  const place = () => {
    const at = button.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = list;
    const left = Math.max(8, Math.min(at.right - width, innerWidth - width - 8));
    const below = at.bottom + 4;
    const top = below + height > innerHeight - 8 ? Math.max(8, at.top - height - 4) : below;
    list.style.setProperty("left", `${left}px`);
    list.style.setProperty("top", `${top}px`);
  };
  const move = (step: number) => {
    const buttons = [...list.querySelectorAll<HTMLButtonElement>("button")];
    const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
    buttons[(at + step + buttons.length) % buttons.length]?.focus();
  };
  return (
    <>
      <button
        ref={button}
        type="button"
        class={`icon ${props.class ?? ""}`}
        aria-label={props.label}
        title={props.label}
        aria-haspopup="menu"
        aria-expanded={open()}
        onClick={(event) => {
          event.preventDefault();
          event.stopPropagation();
          list.togglePopover();
        }}
      >
        {props.icon ?? <icons.More />}
      </button>
      <div
        ref={list}
        id={id}
        popover="auto"
        role="menu"
        class="menu"
        aria-label={props.label}
        onToggle={(event) => {
          const opens = event.newState === "open";
          setOpen(opens);
          if (!opens) return;
          place();
          list.querySelector("button")?.focus();
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown" || event.key === "ArrowUp") {
            event.preventDefault();
            move(event.key === "ArrowDown" ? 1 : -1);
          }
        }}
      >
        <Show when={open()}>
          <For each={props.items}>
            {(item) => (
              <button
                type="button"
                role="menuitem"
                classList={{ danger: item.danger }}
                onClick={(event) => {
                  event.preventDefault();
                  event.stopPropagation();
                  list.hidePopover();
                  item.run();
                }}
              >
                {item.icon?.({})}
                <span>{item.label}</span>
              </button>
            )}
          </For>
        </Show>
      </div>
    </>
  );
}

/** A window over the page. */
export function Dialog(props: { title: string; onClose: () => void; class?: string; children: JSX.Element }) {
  return (
    <dialog
      class={`dialog ${props.class ?? ""}`}
      aria-label={props.title}
      ref={(element) => queueMicrotask(() => element.isConnected && !element.open && element.showModal())}
      onClose={() => props.onClose()}
      onClick={(event) => {
        if (event.target === event.currentTarget) event.currentTarget.close();
      }}
    >
      <div class="dialog-body">{props.children}</div>
    </dialog>
  );
}

export function Empty(props: { icon?: JSX.Element; title: string; children?: JSX.Element }) {
  return (
    <div class="empty">
      {props.icon}
      <h2>{props.title}</h2>
      {props.children}
    </div>
  );
}
