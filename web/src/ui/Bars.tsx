/** A bar chart, with a table for those who cannot see it. */
import { For } from "solid-js";
import { count, visible } from "../text/plain";

export interface Bar {
  label: string;
  parts: number[];
}

const HEIGHT = 120;
const WIDTH = 600;

export function Bars(props: { label: string; bars: Bar[]; series: string[] }) {
  const total = (bar: Bar) => bar.parts.reduce((sum, part) => sum + part, 0);
  const most = () => Math.max(1, ...props.bars.map(total));
  const step = () => WIDTH / Math.max(1, props.bars.length);
  const gap = () => Math.min(6, step() * 0.25);
  return (
    <figure class="bars">
      <figcaption>
        <span>{props.label}</span>
        <span class="legend">
          <For each={props.series}>
            {(name, at) => (
              <span>
                <i class={`swatch s${at()}`} />
                {name}
              </span>
            )}
          </For>
        </span>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${props.label}, at most ${count(most())}`} preserveAspectRatio="none">
        <For each={props.bars}>
          {(bar, at) => {
            let y = HEIGHT;
            return (
              <g>
                <title>{`${visible(bar.label)}: ${bar.parts.map((part, i) => `${count(part)} ${props.series[i]}`).join(", ")}`}</title>
                <For each={bar.parts}>
                  {(part, i) => {
                    const height = (part / most()) * (HEIGHT - 4);
                    y -= height;
                    return <rect class={`s${i()}`} x={at() * step() + gap() / 2} y={y} width={Math.max(1, Math.min(46, step() - gap()))} height={height} rx="1.5" />;
                  }}
                </For>
              </g>
            );
          }}
        </For>
      </svg>
      <div class="bars-scale">
        <span>{visible(props.bars[0]?.label ?? "").slice(0, 24)}</span>
        <span>most: {count(most())}</span>
        <span>{visible(props.bars.at(-1)?.label ?? "").slice(0, 24)}</span>
      </div>
    </figure>
  );
}
