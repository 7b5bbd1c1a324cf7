/** A terminal's screen, by xterm.js. Loaded when the first terminal is opened. */
import "@xterm/xterm/css/xterm.css";

export interface Screen {
  write(data: string): void;
  reset(): void;
  focus(): void;
  find(text: string, backwards?: boolean): void;
  dispose(): void;
}

/**
 * Does something while `<style>` elements are made as constructed style sheets: the policy of the page allows no styles that a
 * script writes into the document, and xterm.js has no other way to say how its rows look.
 */
function withSheets(sheets: CSSStyleSheet[], work: () => void): void {
  document.createElement = ((name: string, options?: ElementCreationOptions) => {
    if (name !== "style") return Document.prototype.createElement.call(document, name, options);
    const element = Document.prototype.createElement.call(document, "template");
    const sheet = new CSSStyleSheet();
    sheets.push(sheet);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    Object.defineProperty(element, "textContent", { get: () => "", set: (css: string) => sheet.replaceSync(css) });
    return element;
  }) as typeof document.createElement;
  try {
    work();
  } finally {
    delete (document as Partial<Document>).createElement;
  }
}

function colours(): Record<string, string> {
  const style = getComputedStyle(document.body);
  const read = (name: string) => {
    // Colours may be functions; only a real property is worked out by the browser.
    const probe = document.createElement("span");
    probe.style.color = style.getPropertyValue(name);
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
  return {
    background: read("--code"),
    foreground: read("--text"),
    cursor: read("--accent"),
    selectionBackground: read("--line-strong"),
    red: read("--del-text"),
    green: read("--add-text"),
    yellow: read("--hl-number"),
    blue: read("--hl-title"),
    magenta: read("--hl-keyword"),
    cyan: read("--accent"),
  };
}

export async function openTerminal(
  box: HTMLElement,
  on: { onData: (data: string) => void; onResize: (cols: number, rows: number) => void },
): Promise<Screen> {
  const [{ Terminal }, { FitAddon }, { SearchAddon }, { WebLinksAddon }] = await Promise.all([
    import("@xterm/xterm"),
    import("@xterm/addon-fit"),
    import("@xterm/addon-search"),
    import("@xterm/addon-web-links"),
  ]);
  const sheets: CSSStyleSheet[] = [];
  const terminal = new Terminal({
    fontFamily: getComputedStyle(document.body).getPropertyValue("--mono"),
    fontSize: 13,
    scrollback: 5000,
    theme: colours(),
    convertEol: false,
    cursorBlink: true,
    screenReaderMode: false,
  });
  const fit = new FitAddon();
  const search = new SearchAddon();
  terminal.loadAddon(fit);
  terminal.loadAddon(search);
  terminal.loadAddon(new WebLinksAddon((_event, uri) => /^https?:/.test(uri) && window.open(uri, "_blank", "noopener,noreferrer")));
  withSheets(sheets, () => terminal.open(box));
  terminal.onData(on.onData);
  terminal.onResize(({ cols, rows }) => on.onResize(cols, rows));
  // Ctrl+Shift+C copies, as in other terminals.
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.type === "keydown" && event.ctrlKey && event.shiftKey && event.key.toLowerCase() === "c") {
      void navigator.clipboard?.writeText(terminal.getSelection());
      event.preventDefault();
      return false;
    }
    return true;
  });
  const resized = new ResizeObserver(() => fit.fit());
  resized.observe(box);
  fit.fit();
  return {
    write: (data) => terminal.write(data),
    reset: () => terminal.reset(),
    focus: () => terminal.focus(),
    find: (text, backwards) => (backwards ? search.findPrevious(text) : search.findNext(text)),
    dispose: () => {
      resized.disconnect();
      terminal.dispose();
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !sheets.includes(sheet));
    },
  };
}
