/** Shows Markdown. Every node is made from the tree; nothing of the text is ever read as HTML. */
import { For, Show, createEffect, createMemo, createSignal, onCleanup, type JSX } from "solid-js";
import { Dynamic } from "solid-js/web";
import { Reader, safeImage, type Block, type Inline } from "../text/markdown";
import { visible } from "../text/plain";
import { CopyButton } from "./parts";

function inlines(list: Inline[]): JSX.Element {
  return list.map((inline): JSX.Element => {
    switch (inline.kind) {
      case "text":
        return visible(inline.text);
      case "code":
        return <code>{visible(inline.text)}</code>;
      case "break":
        return <br />;
      case "strong":
        return <strong>{inlines(inline.children)}</strong>;
      case "em":
        return <em>{inlines(inline.children)}</em>;
      case "del":
        return <del>{inlines(inline.children)}</del>;
      case "link":
        return (
          <a href={inline.href} target="_blank" rel="noopener noreferrer nofollow">
            {inlines(inline.children)}
          </a>
        );
      case "image": {
        // Pictures of other places are not fetched: that would tell them who reads this.
        const src = safeImage(inline.src);
        return src ? <img src={src} alt={visible(inline.alt)} /> : <span class="no-image">{visible(inline.alt) || "picture"}</span>;
      }
    }
  });
}

/** Long code is laid out in pieces, so that only those in sight cost anything. */
const PIECE = 120;

export function pieces(text: string): string[] {
  const lines = text.split("\n");
  if (lines.length <= PIECE * 1.5) return [text];
  const out: string[] = [];
  for (let i = 0; i < lines.length; i += PIECE) {
    out.push(lines.slice(i, i + PIECE).join("\n") + (i + PIECE < lines.length ? "\n" : ""));
  }
  return out;
}

export function Code(props: { text: string; language: string; open?: boolean }) {
  let code!: HTMLElement;
  const text = createMemo(() => visible(props.text));
  const [painted, setPainted] = createSignal(false);
  createEffect(() => {
    const [source, language] = [text(), props.language];
    setPainted(false);
    if (props.open || !language || source.length > 60_000) return;
    let stale = false;
    onCleanup(() => (stale = true));
    import("../text/highlight").then(({ highlight }) => {
      if (stale) return;
      const nodes = highlight(source, language);
      if (!nodes) return;
      setPainted(true);
      code.replaceChildren(nodes);
    }).catch(() => {});
  });
  return (
    <div class="code">
      <div class="code-head">
        <span>{props.language || "text"}</span>
        <CopyButton text={() => props.text} label="Copy code" />
      </div>
      <pre tabindex="0" aria-label={`Code${props.language ? `, ${props.language}` : ""}`}>
        <Show when={!painted()} fallback={<code ref={code} />}>
          <code ref={code}>
            <For each={pieces(text())}>{(piece) => <span class="piece">{piece}</span>}</For>
          </code>
        </Show>
      </pre>
    </div>
  );
}

function BlockView(props: { block: Block }) {
  const block = props.block;
  switch (block.kind) {
    case "paragraph":
      return <p dir="auto">{inlines(block.children)}</p>;
    case "heading":
      // The page has headings of its own above those of an answer.
      return (
        <Dynamic component={`h${Math.min(6, block.level + 1)}`} class={`md-h${block.level}`} dir="auto">
          {inlines(block.children)}
        </Dynamic>
      );
    case "code":
      return <Code text={block.text} language={block.language} open={block.open} />;
    case "quote":
      return <blockquote>{blocks(block.blocks)}</blockquote>;
    case "rule":
      return <hr />;
    case "list":
      return (
        <Dynamic component={block.ordered ? "ol" : "ul"} start={block.ordered && block.start !== 1 ? block.start : undefined}>
          {block.items.map((item) => (
            <li classList={{ task: item.done !== undefined }}>
              <Show when={item.done !== undefined}>
                <input type="checkbox" checked={item.done} disabled aria-label={item.done ? "Done" : "To do"} />
              </Show>
              {item.blocks.length === 1 && item.blocks[0]!.kind === "paragraph" ? (
                <span dir="auto">{inlines(item.blocks[0]!.children)}</span>
              ) : (
                blocks(item.blocks)
              )}
            </li>
          ))}
        </Dynamic>
      );
    case "table":
      return (
        <div class="table" tabindex="0" role="group" aria-label="Table">
          <table>
            <thead>
              <tr>
                {block.head.map((cell, at) => (
                  <th scope="col" class={block.align[at]}>
                    {inlines(cell)}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {block.rows.map((row) => (
                <tr>
                  {row.map((cell, at) => (
                    <td class={block.align[at]}>{inlines(cell)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
  }
}

function blocks(list: Block[]): JSX.Element {
  return list.map((block) => <BlockView block={block} />);
}

export function Markdown(props: { text: string }) {
  const reader = new Reader();
  const placed = createMemo(() => reader.read(props.text));
  return (
    <div class="md">
      <For each={placed()}>{(item) => <BlockView block={item.block} />}</For>
    </div>
  );
}
