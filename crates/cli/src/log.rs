//! What the server says of itself while it serves: on standard error, a line for each thing, from a
//! level on.
//!
//! Everything below it speaks through `tracing`, and says nothing if nobody listens: a request that
//! failed, a store that is away, a connection that broke off. Spans are left out, for a line has to
//! make sense by itself. What is in a line can have come from anybody, so it is spelled out as
//! everywhere else.

use std::fmt;
use std::io::{self, Write};

use clap::ValueEnum;
use tidelock::{Clock, SystemClock};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::output::plain;

/// From which level on something is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// Nothing is.
    Off,
    /// What could not be done.
    Error,
    /// And what somebody should look at.
    Warn,
    /// And what is good to know.
    Info,
    /// And what helps to find out why.
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

/// Writes down, from now on and in this process, what is said from this level on.
pub(crate) fn begin(level: Level) {
    // Whoever was first stays: there is one log, and it is being written.
    let _first =
        tracing::subscriber::set_global_default(Log { level: level.into(), to: io::stderr });
}

/// Whoever listens, and where it is written down.
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
        // If nobody can be told, there is nobody to be told that.
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

/// A thing that is said, and its fields.
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
    fn a_line_says_what_happened_from_its_level_on_and_obeys_nobody() {
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
