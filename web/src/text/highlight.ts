/** Colours for code. Loaded when the first code is shown. */
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import kotlin from "highlight.js/lib/languages/kotlin";
import lua from "highlight.js/lib/languages/lua";
import makefile from "highlight.js/lib/languages/makefile";
import markdown from "highlight.js/lib/languages/markdown";
import php from "highlight.js/lib/languages/php";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import swift from "highlight.js/lib/languages/swift";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const languages = {
  bash, c, cpp, csharp, css, diff, dockerfile, go, ini, java, javascript, json, kotlin, lua, makefile, markdown,
  php, python, ruby, rust, sql, swift, typescript, xml, yaml,
};
for (const [name, language] of Object.entries(languages)) hljs.registerLanguage(name, language);
hljs.registerAliases(["console", "shellsession", "fish", "shell"], { languageName: "bash" });
hljs.registerAliases(["jsonc", "json5"], { languageName: "json" });
hljs.registerAliases(["svelte", "vue"], { languageName: "xml" });

/** Collects what the highlighter finds as nodes, so that no HTML has to be read. */
class Nodes {
  root = document.createDocumentFragment();
  #stack: Node[] = [this.root];

  addText(text: string): void {
    if (text) this.#stack.at(-1)!.appendChild(document.createTextNode(text));
  }
  startScope(scope: string): void {
    const span = document.createElement("span");
    span.className = `hl-${scope.split(".")[0]!.replace(/[^a-z_-]/g, "")}`;
    this.#stack.at(-1)!.appendChild(span);
    this.#stack.push(span);
  }
  endScope(): void {
    if (this.#stack.length > 1) this.#stack.pop();
  }
  openNode(scope: string): void {
    this.startScope(scope);
  }
  closeNode(): void {
    this.endScope();
  }
  __addSublanguage(emitter: Nodes): void {
    this.#stack.at(-1)!.appendChild(emitter.root);
  }
  finalize(): void {}
  closeAllNodes(): void {
    this.#stack.length = 1;
  }
  toHTML(): string {
    return "";
  }
}

hljs.configure({ __emitter: Nodes, cssSelector: "none" } as never);

const EXTENSIONS: Record<string, string> = {
  rs: "rust", ts: "typescript", tsx: "typescript", mts: "typescript", js: "javascript", jsx: "javascript", mjs: "javascript",
  py: "python", rb: "ruby", kt: "kotlin", h: "c", hpp: "cpp", cc: "cpp", cs: "csharp", sh: "bash", zsh: "bash", yml: "yaml",
  toml: "ini", cfg: "ini", md: "markdown", html: "xml", svg: "xml", patch: "diff",
};

export function languageOf(path: string): string {
  const name = path.split("/").pop() ?? "";
  if (/^dockerfile/i.test(name)) return "dockerfile";
  if (/^makefile$/i.test(name)) return "makefile";
  const extension = name.split(".").pop()?.toLowerCase() ?? "";
  return EXTENSIONS[extension] ?? extension;
}

/** The code as nodes; nothing where the language is not known. */
export function highlight(text: string, language: string): DocumentFragment | undefined {
  if (!hljs.getLanguage(language)) return undefined;
  const result = hljs.highlight(text, { language, ignoreIllegals: true });
  return (result as unknown as { _emitter?: Nodes })._emitter?.root;
}
