//! `docs/bench.json` as a picture: how many times Lodge's figure each program needs, on one logarithmic scale.

use std::fmt::Write;

use serde_json::Value;

/// What is drawn: the number's name in the report, its label and its unit. Less is better in all of them.
const ROWS: &[(&str, &str, &str)] = &[
    ("start_to_connected_ms", "Start until connected", "ms"),
    ("turn_ms", "One turn with an instant model", "ms"),
    ("tool_round_trip_ms", "Round trip to a tool of the app", "ms"),
    ("delta_cpu_us_of_50000", "Processor time per streamed delta", "µs"),
    ("resume_500_turns_ms", "Resume a session of 500 turns", "ms"),
    ("memory_at_start_mb", "Memory at start", "MB"),
    ("memory_100_idle_sessions_mb", "Memory with 100 idle sessions", "MB"),
    ("memory_peak_of_50000_mb", "Peak memory in 50,000 deltas", "MB"),
];
const PROGRAMS: [(&str, &str, &str); 3] = [
    ("lodge", "Lodge", "#2da44e"),
    ("native runtime", "Native runtime", "#8250df"),
    ("copilot cli", "Copilot CLI", "#6e7781"),
];
const LABELS: f64 = 260.0;
const BARS: f64 = 420.0;
/// Lodge's own bar, and how many powers of ten the rest of a bar spans.
const ONCE: f64 = 20.0;
const DECADES: f64 = 3.0;
const WIDTH: f64 = LABELS + BARS + 120.0;
const BAR: f64 = 13.0;
const ROW: f64 = 3.0 * BAR + 16.0;
const TOP: f64 = 58.0;

/// Draws the numbers of a recorded run.
pub(crate) fn render(report: &Value) -> String {
    let height = TOP + ROW * ROWS.len() as f64 + 8.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\">\n\
         <title>Lodge beside its peers: times Lodge's figure, logarithmic; shorter is better</title>\n\
         <style>text{{font:13px system-ui,sans-serif;fill:#1f2328}}.small{{font-size:11px;fill:#59636e}}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"26\" font-weight=\"bold\">Shorter is better</text>\n\
         <text class=\"small\" x=\"16\" y=\"43\">Times Lodge's figure, logarithmic.</text>\n"
    );
    for (number, (_, label, colour)) in PROGRAMS.iter().enumerate() {
        let x = LABELS + number as f64 * 140.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.0}\" y=\"17\" width=\"11\" height=\"11\" rx=\"2\" fill=\"{colour}\"/><text x=\"{:.0}\" y=\"27\">{label}</text>",
            x + 17.0
        );
    }
    for (decade, label) in ["1 ×", "10 ×", "100 ×", "1,000 ×"].iter().enumerate() {
        let x = LABELS + ONCE + (BARS - ONCE) * decade as f64 / DECADES;
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.0}\" y2=\"{height:.0}\" stroke=\"#d1d9e0\"/>\
             <text class=\"small\" x=\"{x:.1}\" y=\"46\" text-anchor=\"middle\">{label}</text>",
            TOP - 6.0
        );
    }
    for (row, (name, label, unit)) in ROWS.iter().enumerate() {
        let y = TOP + row as f64 * ROW;
        let _ = writeln!(svg, "<text x=\"16\" y=\"{:.1}\">{label}</text>", y + BAR * 1.5 + 5.0);
        let Some(ours) = report[name]["lodge"].as_f64().filter(|value| *value > 0.0) else {
            continue;
        };
        for (number, (program, _, colour)) in PROGRAMS.iter().enumerate() {
            let Some(value) = report[name][program].as_f64().filter(|value| *value > 0.0) else {
                continue;
            };
            let y = y + number as f64 * BAR;
            let width = ONCE + (BARS - ONCE) * ((value / ours).log10() / DECADES).clamp(0.0, 1.0);
            let _ = writeln!(
                svg,
                "<rect x=\"{LABELS:.0}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.0}\" rx=\"2\" fill=\"{colour}\"/>\
                 <text class=\"small\" x=\"{:.1}\" y=\"{:.1}\">{} {unit}</text>",
                BAR - 2.0,
                LABELS + width + 6.0,
                y + BAR - 3.0,
                plain(value)
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Three digits are enough for a picture.
fn plain(value: f64) -> String {
    if value >= 100.0 {
        let whole = format!("{value:.0}");
        let split = whole.len().saturating_sub(3);
        if split == 0 {
            whole
        } else {
            format!("{},{}", &whole[..split], &whole[split..])
        }
    } else if value >= 10.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_chart_has_a_bar_for_every_program_that_was_measured() {
        let report = json!({ "turn_ms": { "lodge": 0.85, "copilot cli": 2891.0, "native runtime": null } });
        let svg = super::render(&report);
        assert_eq!(svg.matches("height=\"11\" rx=\"2\" fill").count(), 3 + 2);
        assert!(svg.contains(">0.8 ms<") || svg.contains(">0.9 ms<"), "{svg}");
        assert!(svg.contains(">2,891 ms<"), "{svg}");
    }
}
