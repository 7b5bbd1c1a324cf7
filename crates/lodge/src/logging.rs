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

/// The lines of this process that clients may listen to.
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

/// Logs go to standard error: standard output belongs to answers and to clients.
pub(crate) fn log_to_stderr(level: &str) {
    log_to(level, std::io::stderr);
}

/// Logs go somewhere else.
pub(crate) fn log_to<W>(level: &str, writer: W)
where
    W: for<'a> fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    // What the library says of MCP servers that fail is said by Lodge as well, to those whom it concerns.
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
    // Asked for every line, because listeners come and go; what is below this level is not even asked about.
    let heard = dynamic_filter_fn(|about, _| about.target().starts_with("lodge") && LINES.are_heard(*about.level()))
        .with_max_level_hint(LevelFilter::INFO);
    let _ = tracing_subscriber::registry()
        .with(shown.with_filter(filter))
        .with(Export.with_filter(heard))
        .try_init();
}

/// Whether standard error is the journal of systemd, which says so by the file that it is.
fn goes_to_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    rustix::fs::fstat(std::io::stderr()).is_ok_and(|found| stream == format!("{}:{}", found.st_dev, found.st_ino))
}

/// Lines as the journal wants them: the level as a number in front, and no time, which it adds itself.
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

/// Gives lines to clients.
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

/// A line as people read it: the message, then the rest.
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
