import { createSignal } from "solid-js";
import type { Uri } from "../ahp/types";
import { rename } from "../app";
import { Dialog } from "./parts";

export default function RenameDialog(props: { session: Uri; title: string; onClose: () => void }) {
  const [title, setTitle] = createSignal(props.title);
  return (
    <Dialog title="Rename the session" onClose={props.onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (title().trim()) rename(props.session, title().trim());
          props.onClose();
        }}
      >
        <h2>Rename the session</h2>
        <label class="field">
          <span>Title</span>
          <input
            class="input"
            value={title()}
            maxlength="200"
            onInput={(event) => setTitle(event.currentTarget.value)}
            ref={(element) => setTimeout(() => element.select())}
          />
        </label>
        <div class="actions">
          <button type="submit" class="button primary" disabled={!title().trim()}>
            Rename
          </button>
          <button type="button" class="button" onClick={props.onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
