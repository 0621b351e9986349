//! The server's log: one line per event on standard error, filtered by level.
//!
//! The libraries log through `tracing`: failed requests, an unavailable store, broken connections.
//! Values can come from clients, so each line is escaped like all other output.

use std::io::{self, Write};

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::output::plain;

/// Installs the log of this process, from this level on.
pub(crate) fn begin(level: LevelFilter) {
    // An existing subscriber stays.
    let _first = tracing::subscriber::set_global_default(log(level, || Escaped(io::stderr())));
}

fn log(
    level: LevelFilter,
    to: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
) -> impl Subscriber + Send + Sync {
    tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(to).finish()
}

/// Escapes what is written: a whole event at a time, which so stays one line.
struct Escaped<W>(W);

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        writeln!(self.0, "{}", plain(text.trim_end()))?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_line_is_filtered_by_level_and_escaped() {
        let paper = Paper::default();
        let to = paper.clone();
        tracing::subscriber::with_default(
            log(LevelFilter::WARN, move || Escaped(to.clone())),
            || {
                tracing::info!("not this");
                let detail = "a\u{1b}[31m\u{202e}";
                tracing::warn!(status = 500, detail, "answered {}", "\n2026 ERROR forged");
            },
        );
        let written = String::from_utf8(paper.0.lock().clone()).unwrap();
        assert_eq!(written.lines().count(), 1, "{written}");
        assert!(
            written.contains("Z  WARN tidelock_cli::log::tests: answered \\n2026"),
            "{written}"
        );
        assert!(written.contains(" status=500 detail=\"a\\u{1b}[31m\\u{202e}\""), "{written}");
    }
}
