import type { JSX } from "solid-js";
import { Dynamic } from "solid-js/web";
import { snug } from "../app";
import * as icons from "./icons";

export function PanelHead(props: { title: string; onClose: () => void; children?: JSX.Element }) {
  return (
    <header class="panel-head">
      <button type="button" class="icon back" aria-label="Back to the conversation" onClick={props.onClose}>
        <icons.Back />
      </button>
      {/* Where the conversation gives way, this is the title of the page. */}
      <Dynamic component={snug() ? "h1" : "h2"}>{props.title}</Dynamic>
      <span class="grow" />
      {props.children}
      <button type="button" class="icon panel-close" aria-label={`Close ${props.title}`} onClick={props.onClose}>
        <icons.Cross />
      </button>
    </header>
  );
}
