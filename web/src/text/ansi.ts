/** What commands print: colours are kept, everything else that moves a cursor is left out. */
import { visible } from "./plain";

export interface Span {
  text: string;
  /** Names of classes: `fg1`…`fg15`, `bold`, `dim`, `italic`, `under`. */
  classes: string;
}

const SEQUENCE = /\u001b(?:\[([0-9;:?<=>]*)[ -/]*([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])/g;

/** What is left of lines that are written over by carriage returns. */
function overwritten(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(/[^\n]*\r(?=[^\n])/g, "");
}

export function spans(source: string): Span[] {
  if (!source.includes("\u001b")) return [{ text: visible(overwritten(source)), classes: "" }];
  const out: Span[] = [];
  let colour: number | undefined;
  const styles = new Set<string>();
  let last = 0;
  const put = (text: string) => {
    const shown = visible(overwritten(text));
    const classes = [...styles, ...(colour === undefined ? [] : [`fg${colour}`])].join(" ");
    if (shown) out.push({ text: shown, classes });
  };
  for (const found of source.matchAll(SEQUENCE)) {
    put(source.slice(last, found.index));
    last = found.index + found[0].length;
    if (found[2] !== "m") continue;
    const codes = (found[1] || "0").split(/[;:]/).map(Number);
    for (let i = 0; i < codes.length; i++) {
      const code = codes[i]!;
      if (code === 0) {
        styles.clear();
        colour = undefined;
      } else if (code === 1) styles.add("bold");
      else if (code === 2) styles.add("dim");
      else if (code === 3) styles.add("italic");
      else if (code === 4) styles.add("under");
      else if (code === 22) {
        styles.delete("bold");
        styles.delete("dim");
      } else if (code === 23) styles.delete("italic");
      else if (code === 24) styles.delete("under");
      else if (code >= 30 && code <= 37) colour = code - 30;
      else if (code >= 90 && code <= 97) colour = code - 82;
      else if (code === 39) colour = undefined;
      else if (code === 38 || code === 48) {
        if (codes[i + 1] === 5) {
          const index = codes[i + 2] ?? 0;
          if (code === 38) colour = index < 16 ? index : undefined;
          i += 2;
        } else if (codes[i + 1] === 2) i += 4;
      }
    }
  }
  put(source.slice(last));
  return out;
}
