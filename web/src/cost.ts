/** What was used, as money, where the host knows prices; and how full the model's window is. */
import { root } from "./app";
import type { ModelInfo, Usage } from "./ahp/types";

export interface Amount {
  currency: string;
  sum: number;
}

export function modelOf(id: string | undefined): ModelInfo | undefined {
  return root.state()?.agents.flatMap((agent) => agent.models).find((model) => model.id === id);
}

/** Nothing where the price of a model is not known. */
export function costOf(usage: Usage | undefined): Amount | undefined {
  const price = modelOf(usage?.model)?._meta?.pricing;
  if (!usage || !price) return undefined;
  const cached = usage.cacheReadTokens ?? 0;
  const fresh = Math.max(0, (usage.inputTokens ?? 0) - cached);
  const sum = (fresh * price.input + cached * price.cached + (usage.outputTokens ?? 0) * price.output) / 1e6;
  return { currency: price.currency, sum };
}

export function costOfAll(usages: (Usage | undefined)[]): Amount | undefined {
  const costs = usages.map(costOf).filter((cost) => cost !== undefined);
  return costs.length ? { currency: costs[0]!.currency, sum: costs.reduce((sum, cost) => sum + cost.sum, 0) } : undefined;
}

export function money({ currency, sum }: Amount): string {
  return `${currency}${sum > 0 && sum < 0.1 ? sum.toFixed(4) : sum.toFixed(2)}`;
}

/** The tokens in the model's window, and how many fit. */
export function contextOf(usage: Usage | undefined): { used: number; size: number } | undefined {
  const used = usage?._meta?.contextTokens;
  const size = modelOf(usage?.model)?.maxContextWindow;
  return typeof used === "number" && size ? { used, size } : undefined;
}
