/** Light or dark: as the system says, unless the reader chose. */
import { createSignal } from "solid-js";

export type Theme = "system" | "light" | "dark";

const STORE = "lodge.theme";
const [theme, set] = createSignal<Theme>((localStorage.getItem(STORE) as Theme | null) ?? "system");

function apply(): void {
  const chosen = theme();
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}

export { theme };

export function setTheme(next: Theme): void {
  set(next);
  localStorage.setItem(STORE, next);
  apply();
}

apply();
