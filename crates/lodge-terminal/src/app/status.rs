//! The last row: who answers, how, and what it has cost.

use std::collections::HashMap;

use ahp::ahp_types::state::{ChatOrigin, UsageInfo};
use ratatui_core::{
    style::Style,
    text::{Line, Span},
};
use serde::Deserialize;

use super::App;
use crate::{
    plain::{plain_line, shown_path},
    vim::Mode,
    wrap::columns,
};

/// What a model's tokens cost, for a million of them.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Of what is read.
    pub input: f64,
    /// Of what is written.
    pub output: f64,
    /// Of what is read from a cache; as `input` where nobody says.
    pub cached: Option<f64>,
}

/// A table of prices, as somebody wrote it down one day.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// The day.
    pub date: String,
    /// What stands in front of an amount.
    #[serde(default = "dollar")]
    pub currency: String,
    /// Prices by the ids of models.
    pub models: HashMap<String, Price>,
}

fn dollar() -> String {
    "$".to_owned()
}

impl Prices {
    /// The price of each model as AHP clients get it, in `pricing`.
    pub fn by_model(&self) -> HashMap<String, serde_json::Value> {
        let pricing = |price: &Price| {
            serde_json::json!({
                "currency": self.currency, "date": self.date,
                "input": price.input, "output": price.output, "cached": price.cached.unwrap_or(price.input),
            })
        };
        let models = self.models.iter();
        models.map(|(model, price)| (model.clone(), pricing(price))).collect()
    }

    /// The price of a model. The table may name it with its provider (`openai/gpt-5`) or without.
    fn price(&self, id: &str) -> Option<&Price> {
        let without_provider = || self.models.get(id.split_once('/')?.1);
        self.models.get(id).or_else(without_provider)
    }

    /// What something cost; nothing when the price of its model is not known.
    fn cost(&self, usage: &UsageInfo) -> Option<f64> {
        let price = self.price(usage.model.as_deref()?)?;
        let number = |tokens: Option<i64>| tokens.unwrap_or(0).max(0) as f64;
        let cached = number(usage.cache_read_tokens);
        let fresh = (number(usage.input_tokens) - cached).max(0.0);
        let sum = fresh * price.input
            + cached * price.cached.unwrap_or(price.input)
            + number(usage.output_tokens) * price.output;
        Some(sum / 1e6)
    }
}

/// A number of tokens, short.
fn short(tokens: i64) -> String {
    match tokens {
        ..1000 => tokens.to_string(),
        1000..100_000 => format!("{:.1}k", tokens as f64 / 1000.0),
        100_000..1_000_000 => format!("{}k", tokens / 1000),
        _ => format!("{:.1}M", tokens as f64 / 1e6),
    }
}

impl App {
    fn usages(&self) -> impl Iterator<Item = &UsageInfo> {
        let chat = &self.mirror.chat.state;
        let active = chat.active_turn.iter().filter_map(|turn| turn.usage.as_ref());
        chat.turns.iter().filter_map(|turn| turn.usage.as_ref()).chain(active)
    }

    /// How full the model's window is, as far as the host tells.
    fn context(&self) -> Option<String> {
        let used = self
            .usages()
            .filter_map(|usage| usage.meta.as_ref()?.get("contextTokens")?.as_i64())
            .last()?;
        let model = self.mirror.model()?;
        let models = self.mirror.root.agents.iter().flat_map(|agent| &agent.models);
        let window = models
            .filter(|known| known.id == model)
            .filter_map(|known| known.max_context_window)
            .next()?;
        Some(format!("{}% context", used * 100 / window.max(1)))
    }

    /// The pieces, the most important first, as many as fit.
    pub(super) fn status(&self, width: usize) -> Line<'static> {
        let theme = &self.theme;
        let mode = self.vim.as_ref().map(|vim| match vim.mode {
            Mode::Insert => "INSERT".to_owned(),
            Mode::Normal => "NORMAL".to_owned(),
        });
        // First, so that no screen is too narrow for it.
        let (approvals, style) = match self.approvals() {
            "safe" => (None, theme.dim),
            "all" => (Some("auto-approve on".to_owned()), theme.error),
            other => (Some(format!("approvals: {}", plain_line(other))), theme.warning),
        };
        let first: Vec<(String, Style)> = approvals.map(|text| (text, style)).into_iter().collect();
        let mut pieces: Vec<String> = Vec::from_iter(mode);
        pieces.extend(self.host.iter().map(|name| plain_line(name)));
        let model = self.model.as_deref().or(self.mirror.model());
        pieces.push(plain_line(model.unwrap_or("no model")));
        if let Some((name, _)) = &self.agent {
            pieces.push(format!("@{}", plain_line(name)));
        }
        let works = self.setting("mode").unwrap_or("interactive").to_owned();
        pieces.push(works.clone());
        pieces.extend(self.context());
        let sum = |tokens: fn(&UsageInfo) -> Option<i64>| self.usages().filter_map(tokens).sum::<i64>();
        let (read, written) = (sum(|usage| usage.input_tokens), sum(|usage| usage.output_tokens));
        // Turns that are not loaded took tokens, and so did sub-agents, whose chats have usages of their own.
        let chats = &self.mirror.session.state.chats;
        let has_sub_agents = chats
            .iter()
            .any(|chat| matches!(chat.origin, Some(ChatOrigin::Tool { .. })));
        let is_part = self.mirror.chat.state.turns_next_cursor.is_some() || has_sub_agents;
        let at_least = |is_part: bool| if is_part { "≥" } else { "" };
        if read + written > 0 {
            pieces.push(format!("{}{}↑ {}↓", at_least(is_part), short(read), short(written)));
        }
        if let Some(prices) = &self.prices {
            let costs: Vec<f64> = self.usages().filter_map(|usage| prices.cost(usage)).collect();
            if !costs.is_empty() {
                let sum: f64 = costs.iter().sum();
                let at_least = at_least(is_part || costs.len() < self.usages().count());
                // What costs less than ten cents costs something, too.
                let digits = if sum < 0.1 { 4 } else { 2 };
                pieces.push(format!("{at_least}{}{sum:.digits$} ({})", prices.currency, prices.date));
            }
        }
        pieces.extend(self.setting("branch").map(plain_line));
        let place = self.mirror.session.state.working_directories.iter().flatten().next();
        if let Some(place) = place {
            let path = shown_path(place);
            pieces.push(plain_line(path.rsplit('/').next().unwrap_or(&path)));
        }
        let style_of = |piece: &String| match piece.as_str() {
            "plan" if works == "plan" => theme.accent,
            "autopilot" if works == "autopilot" => theme.warning,
            _ => theme.dim,
        };
        let rest = pieces.into_iter().map(|piece| {
            let style = style_of(&piece);
            (piece, style)
        });
        let mut line = Line::default();
        for (piece, style) in first.into_iter().chain(rest) {
            let between = if line.spans.is_empty() { "" } else { " · " };
            if line.width() + columns(between) + columns(&piece) > width {
                break;
            }
            line.push_span(Span::styled(between, theme.dim));
            line.push_span(Span::styled(piece, style));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_made_from_the_table_and_nothing_else() {
        let price = Price {
            input: 2.0,
            output: 10.0,
            cached: Some(0.5),
        };
        let prices = Prices {
            date: "2026-11-01".into(),
            currency: dollar(),
            models: HashMap::from([("m".to_owned(), price)]),
        };
        let usage = |model: &str| UsageInfo {
            input_tokens: Some(1_000_000),
            output_tokens: Some(100_000),
            cache_read_tokens: Some(400_000),
            model: Some(model.to_owned()),
            meta: None,
        };
        assert_eq!(prices.cost(&usage("m")), Some(0.6 * 2.0 + 0.4 * 0.5 + 1.0));
        assert_eq!(prices.cost(&usage("provider/m")), prices.cost(&usage("m")));
        assert_eq!(prices.cost(&usage("other")), None);
        assert_eq!(prices.cost(&usage("m/other")), None);
        assert_eq!(
            [short(999), short(12_345), short(123_456), short(1_234_567)],
            ["999", "12.3k", "123k", "1.2M"]
        );
    }
}
