import type { JSX } from "solid-js";
import * as icons from "./icons";

export function PanelHead(props: { title: string; onClose: () => void; children?: JSX.Element }) {
  return (
    <header class="panel-head">
      <button type="button" class="icon back" aria-label="Back to the conversation" onClick={props.onClose}>
        <icons.Back />
      </button>
      <h2>{props.title}</h2>
      <span class="grow" />
      {props.children}
      <button type="button" class="icon panel-close" aria-label={`Close ${props.title}`} onClick={props.onClose}>
        <icons.Cross />
      </button>
    </header>
  );
}
