/** Changes of a file whose two sides have to be fetched. */
import { Show, Suspense, createResource } from "solid-js";
import { client } from "../app";
import { ROOT } from "../ahp/client";
import type { FileEdit } from "../ahp/types";
import { diffTexts, type FileDiff } from "../text/diff";
import { pathOf } from "../text/plain";
import { DiffView } from "./DiffView";
import { Spinner } from "./parts";

async function read(uri: string | undefined): Promise<string | undefined> {
  if (!uri) return "";
  const found = await client.request<{ data: string; encoding: string }>("resourceRead", { channel: ROOT, uri, encoding: "utf-8" });
  return found.encoding === "utf-8" ? found.data : undefined;
}

export async function load(edit: FileEdit): Promise<FileDiff> {
  const [before, after] = await Promise.all([read(edit.before?.content.uri), read(edit.after?.content.uri)]);
  const names = {
    before: edit.before && pathOf(edit.before.uri),
    after: edit.after && pathOf(edit.after.uri),
  };
  if (before === undefined || after === undefined) {
    return { ...names, hunks: [], added: 0, removed: 0, note: "Not a text file." };
  }
  return { ...names, ...diffTexts(before, after) };
}

export default function FileEditView(props: {
  edit: FileEdit;
  directory?: string;
  bare?: boolean;
  onLine?: (line: number, side: "before" | "after") => void;
}) {
  const [diff] = createResource(
    // Either the address of a content changes with it, or its mark does.
    () => [props.edit.before, props.edit.after].map((side) => `${side?.content.uri} ${side?.content.nonce}`).join(" "),
    () => load(props.edit),
  );
  return (
    <Suspense fallback={<Spinner label="Loading the changes" />}>
      <Show when={!diff.error} fallback={<p class="error-text">{String(diff.error?.message)}</p>}>
        <Show when={diff.latest}>{(found) => <DiffView diff={found()} directory={props.directory} bare={props.bare} onLine={props.onLine} />}</Show>
      </Show>
    </Suspense>
  );
}
