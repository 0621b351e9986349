//! The server's log: one line per event on standard error, filtered by level.
//!
//! The libraries log through `tracing`: failed requests, an unavailable store, broken connections.
//! Spans are left out, so that each line makes sense by itself. Values can come from clients, so
//! they are escaped like all other output.

use std::fmt;
use std::io::{self, Write};

use clap::ValueEnum;
use tidelock::{Clock, SystemClock};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::output::plain;

/// The minimum level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// Nothing.
    Off,
    /// Failures.
    Error,
    /// Also what needs attention.
    Warn,
    /// Also information.
    Info,
    /// Also details for debugging.
    Debug,
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Off => Self::OFF,
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
        }
    }
}

/// Installs the log of this process, from this level on.
pub(crate) fn begin(level: Level) {
    // An existing subscriber stays.
    let _first =
        tracing::subscriber::set_global_default(Log { level: level.into(), to: io::stderr });
}

/// The subscriber, and where it writes.
struct Log<W> {
    level: LevelFilter,
    to: fn() -> W,
}

impl<W: Write + 'static> Subscriber for Log<W> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let (level, target) = (event.metadata().level(), event.metadata().target());
        let text = format!("{} {level} {target}: {line}", SystemClock::default().wall());
        // A failure to write the log cannot be reported.
        let _ = writeln!((self.to)(), "{}", plain(&text));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// An event's message and fields.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields.push_str(&format!(" {name}={value:?}")),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.message, self.fields)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    static WRITTEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());

    struct Paper;

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            WRITTEN.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_line_is_filtered_by_level_and_escaped() {
        let log = Log { level: Level::Warn.into(), to: || Paper };
        tracing::subscriber::with_default(log, || {
            tracing::info!("not this");
            tracing::warn!(
                status = 500,
                detail = "a\u{1b}[31m",
                "answered {}",
                "\n2026 ERROR forged"
            );
        });
        let written = String::from_utf8(WRITTEN.lock().unwrap().clone()).unwrap();
        assert_eq!(written.lines().count(), 1, "{written}");
        assert!(written.contains("Z WARN tidelock_cli::log::tests: answered \\n2026"), "{written}");
        assert!(written.contains(" status=500 detail=\"a\\u{1b}[31m\""), "{written}");
    }
}
