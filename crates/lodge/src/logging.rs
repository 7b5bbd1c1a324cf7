//! Destinations of log lines: standard error, and clients that subscribe to the host's log.

use std::{
    fmt::{Debug, Write as _},
    sync::{Arc, LazyLock},
};

use lodge_telemetry::Lines;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::{LevelFilter, dynamic_filter_fn},
    fmt::{self, FmtContext, FormatEvent, FormatFields, format::Writer},
    layer::{Context, SubscriberExt as _},
    registry::LookupSpan,
    util::SubscriberInitExt as _,
};

/// Log lines of this process, for clients that subscribe to them.
pub(crate) static LINES: LazyLock<Arc<Lines>> = LazyLock::new(Arc::default);

/// A level, or levels of parts of the program (`info,lodge_ahp=debug`).
pub(crate) fn parse_level(text: &str) -> Result<String, String> {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    let known = |part: &str| {
        let level = part.rsplit_once('=').map_or(part, |(_, level)| level);
        levels.contains(&level.trim().to_lowercase().as_str())
    };
    match text.split(',').all(known) && EnvFilter::try_new(text).is_ok() {
        true => Ok(text.to_owned()),
        false => Err(format!("choose one of {}", levels.join(", "))),
    }
}

/// Sends logs to standard error: standard output is for answers and clients.
pub(crate) fn log_to_stderr(level: &str) {
    log_to(level, std::io::stderr);
}

/// Sends logs somewhere else.
pub(crate) fn log_to<W>(level: &str, writer: W)
where
    W: for<'a> fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    // Lodge itself reports failures of MCP servers to the people concerned, so the library's lines are left out.
    let plain = ["off", "error", "warn", "info"].contains(&level);
    let level = if plain {
        format!("{level},rmcp=off")
    } else {
        level.to_owned()
    };
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("warn"));
    let shown = fmt::layer().with_writer(writer).with_ansi(false);
    let shown = match goes_to_journal() {
        true => shown.event_format(Journal).boxed(),
        false => shown.boxed(),
    };
    // Evaluated for every line, because subscribers come and go; lines below this level are not even evaluated.
    let heard = dynamic_filter_fn(|about, _| about.target().starts_with("lodge") && LINES.are_heard(*about.level()))
        .with_max_level_hint(LevelFilter::INFO);
    let _ = tracing_subscriber::registry()
        .with(shown.with_filter(filter))
        .with(Export.with_filter(heard))
        .try_init();
}

/// Whether standard error is systemd's journal, which a variable tells by the file's identity.
fn goes_to_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    rustix::fs::fstat(std::io::stderr()).is_ok_and(|found| stream == format!("{}:{}", found.st_dev, found.st_ino))
}

/// Lines for the journal: the level as a number in front, and no time, which the journal adds.
struct Journal;

impl<S, N> FormatEvent<S, N> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let level = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            Level::DEBUG | Level::TRACE => 7,
        };
        write!(writer, "<{level}>")?;
        let lines = fmt::format().without_time().with_level(false).with_ansi(false);
        lines.format_event(context, writer, event)
    }
}

/// Passes lines to clients.
struct Export;

impl<S: Subscriber> Layer<S> for Export {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let about = event.metadata();
        LINES.add(
            *about.level(),
            about.target(),
            &format!("{}{}", text.message, text.fields),
        );
    }
}

/// A readable line: the message, then the other fields.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
