//! Where log lines go: to standard error, and to clients that listen to the host's logs.

use std::{
    fmt::{Debug, Write as _},
    sync::{Arc, LazyLock},
};

use lodge_ahp::Lines;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::{LevelFilter, dynamic_filter_fn},
    fmt,
    layer::{Context, SubscriberExt as _},
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
        false => Err(format!("it is none of {}", levels.join(", "))),
    }
}

/// Logs go to standard error: standard output belongs to answers and to clients.
pub(crate) fn log_to_stderr(level: &str) {
    // What the library says of MCP servers that fail is said by Lodge as well, to those whom it concerns.
    let plain = ["off", "error", "warn", "info"].contains(&level);
    let level = if plain {
        format!("{level},rmcp=off")
    } else {
        level.to_owned()
    };
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("warn"));
    let shown = fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    // Asked for every line, because listeners come and go; what is below this level is not even asked about.
    let heard = dynamic_filter_fn(|about, _| about.target().starts_with("lodge") && LINES.are_heard(*about.level()))
        .with_max_level_hint(LevelFilter::INFO);
    let _ = tracing_subscriber::registry()
        .with(shown.with_filter(filter))
        .with(Export.with_filter(heard))
        .try_init();
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
