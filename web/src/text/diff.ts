/** Differences between texts, and those that tools print as unified diffs. */

export interface DiffLine {
  kind: "same" | "add" | "del";
  text: string;
  before?: number;
  after?: number;
}

export interface Hunk {
  header: string;
  lines: DiffLine[];
}

export interface FileDiff {
  before?: string;
  after?: string;
  hunks: Hunk[];
  added: number;
  removed: number;
  note?: string;
}

/** The most steps that a comparison takes; beyond that everything between is shown as replaced. */
const STEPS = 4000;

/** The lines that two texts have in common, by the algorithm of Myers. */
function compare(a: string[], b: string[]): DiffLine[] {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const lines: DiffLine[] = [];
  const same = (i: number, j: number) => lines.push({ kind: "same", text: a[i]!, before: i + 1, after: j + 1 });
  for (let i = 0; i < head; i++) same(i, i);
  middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail), head, lines);
  for (let k = tail; k > 0; k--) same(a.length - k, b.length - k);
  return lines;
}

function middle(a: string[], b: string[], offset: number, lines: DiffLine[]): void {
  const del = (i: number) => lines.push({ kind: "del", text: a[i]!, before: offset + i + 1 });
  const add = (j: number) => lines.push({ kind: "add", text: b[j]!, after: offset + j + 1 });
  const most = a.length + b.length;
  const trace: Map<number, number>[] = [];
  let reached = new Map<number, number>([[1, 0]]);
  let found = false;
  for (let d = 0; d <= most && d * d <= STEPS * 1000 && !found; d++) {
    trace.push(new Map(reached));
    const next = new Map(reached);
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (next.get(k - 1) ?? -1) < (next.get(k + 1) ?? -1));
      let x = down ? (next.get(k + 1) ?? 0) : (next.get(k - 1) ?? 0) + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x++;
        y++;
      }
      next.set(k, x);
      if (x >= a.length && y >= b.length) {
        found = true;
        break;
      }
    }
    reached = next;
    if (d > STEPS) break;
  }
  if (!found) {
    a.forEach((_, i) => del(i));
    b.forEach((_, j) => add(j));
    return;
  }
  const steps: DiffLine[] = [];
  let [x, y] = [a.length, b.length];
  for (let d = trace.length - 1; d >= 0; d--) {
    const known = trace[d]!;
    const k = x - y;
    const down = k === -d || (k !== d && (known.get(k - 1) ?? -1) < (known.get(k + 1) ?? -1));
    const from = down ? k + 1 : k - 1;
    const px = d === 0 ? 0 : (known.get(from) ?? 0);
    const py = d === 0 ? 0 : px - from;
    while (x > px && y > py) {
      x--;
      y--;
      steps.push({ kind: "same", text: a[x]!, before: offset + x + 1, after: offset + y + 1 });
    }
    if (d === 0) break;
    if (down) {
      y--;
      steps.push({ kind: "add", text: b[y]!, after: offset + y + 1 });
    } else {
      x--;
      steps.push({ kind: "del", text: a[x]!, before: offset + x + 1 });
    }
  }
  lines.push(...steps.reverse());
}

function split(text: string): string[] {
  if (text === "") return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** The changes between two texts, with a few lines around each. */
export function diffTexts(before: string, after: string, context = 3): FileDiff {
  const lines = compare(split(before), split(after));
  const hunks: Hunk[] = [];
  let keep = -1;
  let hunk: DiffLine[] | undefined;
  lines.forEach((line, at) => {
    const near = lines.slice(Math.max(0, at - context), at + context + 1).some((other) => other.kind !== "same");
    if (!near) return;
    if (!hunk || at !== keep + 1) {
      hunk = [];
      hunks.push({ header: "", lines: hunk });
    }
    hunk.push(line);
    keep = at;
  });
  return {
    hunks,
    added: lines.filter((line) => line.kind === "add").length,
    removed: lines.filter((line) => line.kind === "del").length,
  };
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$/;

/** Whether a text is what `git diff` prints. */
export function isUnified(text: string): boolean {
  return /^(?:diff --git |--- [^\n]*\n\+\+\+ )/.test(text);
}

export function parseUnified(text: string): FileDiff[] {
  const files: FileDiff[] = [];
  let file: FileDiff | undefined;
  let hunk: Hunk | undefined;
  let [before, after] = [0, 0];
  const begin = () => {
    file = { hunks: [], added: 0, removed: 0 };
    files.push(file);
    hunk = undefined;
  };
  const name = (raw: string) => (raw === "/dev/null" ? undefined : raw.replace(/^[ab]\//, "/").replace(/\t.*$/, ""));
  for (const line of text.split("\n")) {
    const at = HUNK.exec(line);
    if (line.startsWith("diff --git ")) begin();
    else if (line.startsWith("--- ") && (!hunk || !file)) {
      if (!file || file.hunks.length > 0) begin();
      file!.before = name(line.slice(4));
    } else if (line.startsWith("+++ ") && file && !hunk) file.after = name(line.slice(4));
    else if (at && file) {
      before = Number(at[1]);
      after = Number(at[2]);
      hunk = { header: at[3]!.trim(), lines: [] };
      file.hunks.push(hunk);
    } else if (hunk && file) {
      const rest = line.slice(1);
      if (line.startsWith("+")) {
        hunk.lines.push({ kind: "add", text: rest, after: after++ });
        file.added++;
      } else if (line.startsWith("-")) {
        hunk.lines.push({ kind: "del", text: rest, before: before++ });
        file.removed++;
      } else if (line.startsWith(" ")) hunk.lines.push({ kind: "same", text: rest, before: before++, after: after++ });
    } else if (file && /^(?:new file|deleted file|Binary files|rename |similarity )/.test(line)) file.note = line;
  }
  return files;
}

/** The part of two lines that differs, so that it can be marked. */
export function changedPart(a: string, b: string): { head: number; tail: number } | undefined {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  // Lines that have little in common are not worth marking.
  return head + tail >= Math.max(a.length, b.length) * 0.3 ? { head, tail } : undefined;
}

/** Rows of two columns: removed lines beside their replacements. */
export function sideBySide(lines: DiffLine[]): { left?: DiffLine; right?: DiffLine }[] {
  const rows: { left?: DiffLine; right?: DiffLine }[] = [];
  for (let i = 0; i < lines.length; ) {
    if (lines[i]!.kind === "same") {
      rows.push({ left: lines[i], right: lines[i] });
      i++;
      continue;
    }
    const gone: DiffLine[] = [];
    const come: DiffLine[] = [];
    for (; i < lines.length && lines[i]!.kind !== "same"; i++) (lines[i]!.kind === "del" ? gone : come).push(lines[i]!);
    for (let k = 0; k < Math.max(gone.length, come.length); k++) rows.push({ left: gone[k], right: come[k] });
  }
  return rows;
}
