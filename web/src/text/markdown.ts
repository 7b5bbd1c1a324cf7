/**
 * Markdown as models write it, read into a tree. The tree holds text and nothing that could run: HTML in it is text too.
 * What is open at the end (a fence, a list) is read as if it ended there, because answers come in pieces.
 */

export type Inline =
  | { kind: "text"; text: string }
  | { kind: "code"; text: string }
  | { kind: "break" }
  | { kind: "strong" | "em" | "del"; children: Inline[] }
  | { kind: "link"; href: string; children: Inline[] }
  | { kind: "image"; src: string; alt: string };

export interface ListItem {
  /** Whether a task is done; nothing where it is no task. */
  done?: boolean;
  blocks: Block[];
}

export type Block =
  | { kind: "paragraph"; children: Inline[] }
  | { kind: "heading"; level: number; children: Inline[] }
  | { kind: "code"; language: string; text: string; open: boolean }
  | { kind: "quote"; blocks: Block[] }
  | { kind: "list"; ordered: boolean; start: number; items: ListItem[] }
  | { kind: "table"; align: ("left" | "right" | "center" | undefined)[]; head: Inline[][]; rows: Inline[][][] }
  | { kind: "rule" };

/** A block, and where it begins in the source. */
export interface Placed {
  start: number;
  block: Block;
}

// Whoever wrote the text may want reading it to take for ever: no part of these patterns can match what the next one can.
const FENCE = /^( {0,3})(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?=\s|$)/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const QUOTE = /^ {0,3}>\s?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(\s+|$)/;
const DELIMITERS = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
/** Lists in quotes in lists: nobody writes more, and somebody may try to. */
const DEPTH = 12;
/** How far the end of something that was opened is looked for, in characters, and how many ends are tried. */
const REACH = 4096;
const LABEL = 1024;
const ENDS = 64;

interface Line {
  text: string;
  start: number;
}

function linesOf(source: string, from: number): Line[] {
  const lines: Line[] = [];
  let start = from;
  for (const text of source.slice(from).split("\n")) {
    lines.push({ text: text.endsWith("\r") ? text.slice(0, -1) : text, start });
    start += text.length + 1;
  }
  return lines;
}

const indent = (text: string) => text.length - text.trimStart().length;
const blank = (text: string) => text.trim() === "";

/** A heading without the marks around it. */
function headingOf(text: string): string {
  const inner = text.trim();
  let end = inner.length;
  while (inner[end - 1] === "#") end--;
  const closed = end === 0 || (end < inner.length && /\s/.test(inner[end - 1]!));
  return closed ? inner.slice(0, end).trimEnd() : inner;
}

function cells(text: string): string[] {
  const found: string[] = [];
  let cell = "";
  let code = false;
  const row = text.trim().replace(/^\|/, "");
  for (let i = 0; i < row.length; i++) {
    const char = row[i]!;
    if (char === "\\" && row[i + 1] === "|") {
      cell += "|";
      i++;
    } else if (char === "|" && !code) {
      found.push(cell.trim());
      cell = "";
    } else {
      if (char === "`") code = !code;
      cell += char;
    }
  }
  if (cell.trim() !== "" || !row.endsWith("|")) found.push(cell.trim());
  return found;
}

/** Whether a line begins a block that ends a paragraph before it. */
function interrupts(text: string): boolean {
  if (FENCE.test(text) || HEADING.test(text) || RULE.test(text) || QUOTE.test(text)) return true;
  const item = ITEM.exec(text);
  return item !== null && item[3] !== "" && (!/\d/.test(item[2]!) || /^1[.)]/.test(item[2]!));
}

function blocksOf(lines: Line[], depth: number): Placed[] {
  const blocks: Placed[] = [];
  let i = 0;
  const put = (start: number, block: Block) => blocks.push({ start, block });
  while (i < lines.length) {
    const { text, start } = lines[i]!;
    if (blank(text)) {
      i++;
      continue;
    }
    const fence = FENCE.exec(text);
    if (fence) {
      const [, pad, mark, info] = fence;
      const end = new RegExp(`^ {0,3}\\${mark![0]}{${mark!.length},}\\s*$`);
      const body: string[] = [];
      i++;
      let open = true;
      for (; i < lines.length; i++) {
        if (end.test(lines[i]!.text)) {
          open = false;
          i++;
          break;
        }
        const line = lines[i]!.text;
        body.push(line.slice(Math.min(pad!.length, indent(line))));
      }
      put(start, { kind: "code", language: info!.trim().split(/[\s,{]/)[0]!.toLowerCase(), text: body.join("\n"), open });
      continue;
    }
    const heading = HEADING.exec(text);
    if (heading) {
      put(start, { kind: "heading", level: heading[1]!.length, children: inlineOf(headingOf(text.slice(heading[0].length))) });
      i++;
      continue;
    }
    if (RULE.test(text)) {
      put(start, { kind: "rule" });
      i++;
      continue;
    }
    if (QUOTE.test(text) && depth < DEPTH) {
      const inner: Line[] = [];
      for (; i < lines.length; i++) {
        const line = lines[i]!.text;
        if (QUOTE.test(line)) inner.push({ text: line.replace(QUOTE, ""), start: lines[i]!.start });
        else if (!blank(line) && !interrupts(line)) inner.push(lines[i]!);
        else break;
      }
      put(start, { kind: "quote", blocks: blocksOf(inner, depth + 1).map((placed) => placed.block) });
      continue;
    }
    const item = ITEM.exec(text);
    if (item && depth < DEPTH) {
      const [list, next] = listOf(lines, i, item, depth);
      put(start, list);
      i = next;
      continue;
    }
    const next = lines[i + 1]?.text;
    if (text.includes("|") && next !== undefined && DELIMITERS.test(next) && next.includes("-")) {
      const head = cells(text);
      const align = cells(next).map((cell) => {
        const [left, right] = [cell.startsWith(":"), cell.endsWith(":")];
        return left && right ? "center" : right ? "right" : left ? "left" : undefined;
      });
      if (head.length === align.length) {
        const rows: Inline[][][] = [];
        for (i += 2; i < lines.length && !blank(lines[i]!.text) && lines[i]!.text.includes("|"); i++) {
          const row = cells(lines[i]!.text);
          rows.push(head.map((_, column) => inlineOf(row[column] ?? "")));
        }
        put(start, { kind: "table", align, head: head.map((cell) => inlineOf(cell)), rows });
        continue;
      }
    }
    if (indent(text) >= 4 && !item) {
      const body: string[] = [];
      for (; i < lines.length && (blank(lines[i]!.text) || indent(lines[i]!.text) >= 4); i++) body.push(lines[i]!.text.slice(4));
      put(start, { kind: "code", language: "", text: body.join("\n").trimEnd(), open: false });
      continue;
    }
    const paragraph = [text.trimStart()];
    for (i++; i < lines.length && !blank(lines[i]!.text) && !interrupts(lines[i]!.text); i++)
      paragraph.push(lines[i]!.text.trimStart());
    put(start, { kind: "paragraph", children: inlineOf(paragraph.join("\n").trimEnd()) });
  }
  return blocks;
}

function listOf(lines: Line[], from: number, first: RegExpExecArray, depth: number): [Block, number] {
  const ordered = /\d/.test(first[2]!);
  const kind = first[2]!.at(-1)!;
  const base = first[1]!.length;
  const items: ListItem[] = [];
  let i = from;
  // The next line that is not blank, as far as it was looked for.
  let full = from;
  while (i < lines.length) {
    const marker = ITEM.exec(lines[i]!.text);
    const fits = marker && /\d/.test(marker[2]!) === ordered && (ordered || marker[2] === kind) && indent(lines[i]!.text) < base + 2;
    if (!fits || (RULE.test(lines[i]!.text) && !ordered)) break;
    const width = marker[0].length - (marker[3]!.length > 4 ? marker[3]!.length - 1 : 0);
    const inner: Line[] = [{ text: lines[i]!.text.slice(width), start: lines[i]!.start }];
    for (i++; i < lines.length; i++) {
      const { text, start } = lines[i]!;
      if (blank(text)) {
        // A blank line belongs to the item only if more of the item follows.
        if (full <= i) for (full = i + 1; full < lines.length && blank(lines[full]!.text); ) full++;
        const more = lines[full];
        if (!more || indent(more.text) < Math.min(width, base + 2)) break;
        inner.push({ text: "", start });
      } else if (indent(text) >= Math.min(width, base + 2)) inner.push({ text: text.slice(Math.min(width, indent(text))), start });
      else if (ITEM.test(text) || interrupts(text) || blank(lines[i - 1]!.text)) break;
      else inner.push({ text: text.trimStart(), start });
    }
    const task = /^\[([ xX])\]\s+/.exec(inner[0]!.text);
    if (task) inner[0]!.text = inner[0]!.text.slice(task[0].length);
    const blocks = blocksOf(inner, depth + 1).map((placed) => placed.block);
    items.push({ done: task ? task[1] !== " " : undefined, blocks });
    const rest = i;
    while (i < lines.length && blank(lines[i]!.text)) i++;
    if (i >= lines.length || !ITEM.test(lines[i]!.text)) {
      i = rest;
      break;
    }
  }
  return [{ kind: "list", ordered, start: ordered ? parseInt(first[2]!, 10) : 1, items }, Math.max(i, from + 1)];
}

const LINK = /^(?:https?:\/\/|mailto:)/i;
const IMAGE = /^data:image\/(?:png|jpeg|gif|webp|avif);base64,/i;

/** An address that a link may have; nothing where it could do anything but open a page. */
export function safeHref(href: string): string | undefined {
  // What browsers leave out of addresses must not hide what they are.
  const clean = href.replace(/[\u0000-\u0020\u007f-\u00a0]/g, "");
  return LINK.test(clean) ? clean : undefined;
}

export function safeImage(src: string): string | undefined {
  return IMAGE.test(src) ? src : undefined;
}

const DATA = /(data:image\/[a-z+]+;base64,[\w+/=]*)\)/y;
const PLAIN = /[\\`*_~[\]!<&h\n]/g;
const ESCAPED = /[!-/:-@[-`{-~]/;
const ENTITIES: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&nbsp;": "\u00a0", "&#39;": "'" };

/** Parses the inline content of a paragraph. */
export function inlineOf(source: string, depth = 0): Inline[] {
  const out: Inline[] = [];
  // Plain text: finished lines, and the one that is read.
  let lines = "";
  let text = "";
  const flush = () => {
    if (lines || text) out.push({ kind: "text", text: lines + text });
    lines = text = "";
  };
  const put = (inline: Inline) => {
    flush();
    out.push(inline);
  };
  let i = 0;
  while (i < source.length) {
    PLAIN.lastIndex = i;
    const found = PLAIN.exec(source);
    if (!found) {
      text += source.slice(i);
      break;
    }
    text += source.slice(i, found.index);
    i = found.index;
    const char = source[i]!;
    if (char === "\n") {
      const hard = text.endsWith("  ") || text.endsWith("\\");
      text = text.endsWith("\\") ? text.slice(0, -1) : text.trimEnd();
      if (hard) put({ kind: "break" });
      else {
        lines += `${text}\n`;
        text = "";
      }
      i++;
    } else if (char === "\\") {
      const next = source[i + 1];
      if (next !== undefined && ESCAPED.test(next)) {
        text += next;
        i += 2;
      } else {
        text += char;
        i++;
      }
    } else if (char === "`") {
      const run = /^`+/.exec(source.slice(i))![0];
      const end = endOfCode(source, i + run.length, run);
      if (end < 0) {
        text += run;
        i += run.length;
      } else {
        let code = source.slice(i + run.length, end).replace(/\n/g, " ");
        if (code.length > 2 && code.startsWith(" ") && code.endsWith(" ")) code = code.slice(1, -1);
        put({ kind: "code", text: code });
        i = end + run.length;
      }
    } else if ((char === "*" || char === "_" || char === "~") && depth < DEPTH) {
      const taken = emphasis(source, i, depth);
      if (taken) {
        put(taken.inline);
        i = taken.end;
      } else {
        const run = /^(\*+|_+|~+)/.exec(source.slice(i))![0];
        text += run;
        i += run.length;
      }
    } else if (char === "[" || (char === "!" && source[i + 1] === "[")) {
      const image = char === "!";
      const link = depth < DEPTH ? linkAt(source, image ? i + 1 : i) : undefined;
      if (!link) {
        text += char;
        i++;
      } else {
        if (image) put({ kind: "image", src: link.target, alt: link.label });
        else {
          const href = safeHref(link.target);
          const children = inlineOf(link.label, depth + 1);
          if (href) put({ kind: "link", href, children });
          else {
            flush();
            out.push(...children);
          }
        }
        i = link.end;
      }
    } else if (char === "<") {
      const auto = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/i.exec(source.slice(i, i + 2048));
      if (auto) {
        put({ kind: "link", href: auto[1]!, children: [{ kind: "text", text: auto[1]! }] });
        i += auto[0].length;
      } else {
        const line = /^<br\s*\/?>/i.exec(source.slice(i, i + 8));
        if (line) put({ kind: "break" });
        else text += char;
        i += line ? line[0].length : 1;
      }
    } else if (char === "&") {
      const entity = /^&(?:amp|lt|gt|quot|nbsp|#39);/.exec(source.slice(i, i + 8));
      text += entity ? ENTITIES[entity[0]] : char;
      i += entity ? entity[0].length : 1;
    } else if (char === "h" && /^https?:\/\//.test(source.slice(i, i + 8)) && !/\w/.test(source[i - 1] ?? "")) {
      let href = /^[^\s<>"'`]+/.exec(source.slice(i, i + REACH))![0].replace(/[.,;:!?*_~]+$/, "");
      // A bracket at the end belongs to the sentence, unless it was opened in the address.
      while (/[)\]]$/.test(href) && !href.includes(href.endsWith(")") ? "(" : "[")) href = href.slice(0, -1);
      put({ kind: "link", href, children: [{ kind: "text", text: href }] });
      i += href.length;
    } else {
      text += char;
      i++;
    }
  }
  flush();
  return out;
}

function endOfCode(source: string, from: number, run: string): number {
  for (let at = source.indexOf(run, from); at >= 0; at = source.indexOf(run, at + 1)) {
    if (source[at - 1] !== "`" && source[at + run.length] !== "`") return at;
    while (source[at + 1] === "`") at++;
  }
  return -1;
}

function emphasis(source: string, at: number, depth: number): { inline: Inline; end: number } | undefined {
  const char = source[at]!;
  const run = /^(\*+|_+|~+)/.exec(source.slice(at, at + 8))![0];
  if (run.length > 3 || (char === "~" && run.length !== 2)) return undefined;
  const after = source[at + run.length];
  if (after === undefined || /\s/.test(after)) return undefined;
  if (char === "_" && /[\p{L}\p{N}]/u.test(source[at - 1] ?? " ")) return undefined;
  const near = source.slice(0, at + REACH);
  let tried = 0;
  for (let end = near.indexOf(run, at + run.length); end >= 0 && tried < ENDS; end = near.indexOf(run, end + 1), tried++) {
    if (source[end - 1] === "\\" || /\s/.test(source[end - 1]!) || end === at + run.length) continue;
    let last = end + run.length;
    // Of a longer run at the end the last marks are the closing ones.
    while (source[last] === char) {
      last++;
      end++;
    }
    if (char === "_" && /[\p{L}\p{N}]/u.test(source[last] ?? " ")) continue;
    const inner = source.slice(at + run.length, last - run.length);
    if ((inner.split("`").length - 1) % 2 === 1) continue;
    const children = inlineOf(inner, depth + 1);
    if (char === "~") return { inline: { kind: "del", children }, end: last };
    if (run.length === 1) return { inline: { kind: "em", children }, end: last };
    if (run.length === 2) return { inline: { kind: "strong", children }, end: last };
    return { inline: { kind: "strong", children: [{ kind: "em", children }] }, end: last };
  }
  return undefined;
}

function linkAt(source: string, at: number): { label: string; target: string; end: number } | undefined {
  let level = 0;
  let close = -1;
  for (let i = at; i < source.length && i < at + LABEL; i++) {
    const char = source[i]!;
    if (char === "\\") i++;
    else if (char === "[") level++;
    else if (char === "]" && --level === 0) {
      close = i;
      break;
    }
  }
  if (close < 0 || source[close + 1] !== "(") return undefined;
  // An image may be in its own address.
  DATA.lastIndex = close + 2;
  const data = DATA.exec(source);
  if (data) return { label: source.slice(at + 1, close), target: data[1]!, end: DATA.lastIndex };
  let parens = 0;
  for (let i = close + 1; i < source.length && i < close + REACH; i++) {
    const char = source[i]!;
    if (char === "\\") i++;
    else if (char === "\n") return undefined;
    else if (char === "(") parens++;
    else if (char === ")" && --parens === 0) {
      const inside = source.slice(close + 2, i).trim();
      const target = /^<([^>]*)>/.exec(inside)?.[1] ?? inside.split(/\s+["'(]/)[0]!;
      return { label: source.slice(at + 1, close), target, end: i + 1 };
    }
  }
  return undefined;
}

export function parse(source: string, from = 0): Placed[] {
  return blocksOf(linesOf(source, from), 0);
}

/**
 * Reads text that grows at its end. Only the last block can still change, so what stands before it is read once and keeps
 * its identity: whoever shows the blocks redraws the last one only.
 */
export class Reader {
  #source = "";
  #blocks: Placed[] = [];

  read(source: string): Placed[] {
    const last = this.#blocks.at(-1);
    if (last && source.startsWith(this.#source) && source.length >= this.#source.length) {
      if (source.length !== this.#source.length) this.#blocks = [...this.#blocks.slice(0, -1), ...parse(source, last.start)];
    } else this.#blocks = parse(source);
    this.#source = source;
    return this.#blocks;
  }
}
