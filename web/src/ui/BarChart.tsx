/** A bar chart, with a table for those who cannot see it. */
import { For } from "solid-js";
import { count, visible } from "../text/plain";

export interface Bar {
  label: string;
  parts: number[];
}

const HEIGHT = 120;
const WIDTH = 600;

/** `first` is the colour of the first series, `show` how a value is written. */
export function BarChart(props: { label: string; bars: Bar[]; series: string[]; first?: number; show?: (value: number) => string }) {
  const show = (value: number) => (props.show ?? count)(value);
  const colour = (at: number) => `s${at + (props.first ?? 0)}`;
  const total = (bar: Bar) => bar.parts.reduce((sum, part) => sum + part, 0);
  const most = () => Math.max(...props.bars.map(total), 0) || 1;
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
                <i class={`swatch ${colour(at())}`} />
                {name}
              </span>
            )}
          </For>
        </span>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${props.label}, at most ${show(most())}`} preserveAspectRatio="none">
        <For each={props.bars}>
          {(bar, at) => {
            let y = HEIGHT;
            return (
              <g>
                <title>{`${visible(bar.label)}: ${bar.parts.map((part, i) => `${show(part)} ${props.series[i]}`).join(", ")}`}</title>
                <For each={bar.parts}>
                  {(part, i) => {
                    const height = (part / most()) * (HEIGHT - 4);
                    y -= height;
                    return <rect class={colour(i())} x={at() * step() + gap() / 2} y={y} width={Math.max(1, Math.min(46, step() - gap()))} height={height} rx="1.5" />;
                  }}
                </For>
              </g>
            );
          }}
        </For>
      </svg>
      <div class="bars-scale">
        <span>{visible(props.bars[0]?.label ?? "").slice(0, 24)}</span>
        <span>most: {show(most())}</span>
        <span>{visible(props.bars.at(-1)?.label ?? "").slice(0, 24)}</span>
      </div>
    </figure>
  );
}
