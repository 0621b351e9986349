//! The server's log: one line per event on standard error, filtered by level and target.
//!
//! The libraries log through `tracing`: failed requests, an unavailable store, broken connections.
//! Values can come from clients, so each line is escaped like all other output.

use std::io::{self, Write};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::args::LogFormat;
use crate::failure::{Failure, Result};
use crate::output::{json_line, plain};

/// The filter of the log, as most Rust programs read it: `warn`, `info,tidelock=debug`.
const VARIABLE: &str = "RUST_LOG";

/// A layer of the log.
type LogLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// What is to be finished when the log ends.
#[must_use = "spans that are left are exported when this is dropped"]
#[derive(Debug)]
pub(crate) struct Logging {
    #[cfg(feature = "otel")]
    _spans: Option<tidelock_http::SpanExport>,
}

/// Installs the log of this process: from this level on, or according to `RUST_LOG`. With the
/// feature `otel`, spans are exported to the collector that the environment names.
pub(crate) fn begin(level: Option<LevelFilter>, format: LogFormat) -> Result<Logging> {
    let filter = filter(level, std::env::var(VARIABLE).ok().as_deref())?;
    let lines = lines(filter, format, move || Escaped { to: io::stderr(), format });
    #[cfg(feature = "otel")]
    let (layers, logging) = {
        let wrong = |error: tidelock_http::ExportError| {
            Failure::usage(error.to_string(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318")
        };
        let spans = tidelock_http::SpanExport::from_environment().map_err(wrong)?;
        let layer = spans.as_ref().map(|spans| Box::new(spans.layer()) as LogLayer);
        (layer.into_iter().chain([lines]).collect::<Vec<_>>(), Logging { _spans: spans })
    };
    #[cfg(not(feature = "otel"))]
    let (layers, logging) = (vec![lines], Logging {});
    // An existing subscriber stays.
    let _first =
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layers));
    Ok(logging)
}

fn filter(level: Option<LevelFilter>, variable: Option<&str>) -> Result<EnvFilter> {
    let text = match (level, variable.filter(|text| !text.is_empty())) {
        (Some(level), _) => level.to_string(),
        (None, Some(text)) => text.to_owned(),
        (None, None) => LevelFilter::WARN.to_string(),
    };
    EnvFilter::builder().parse(&text).map_err(|error| {
        Failure::usage(
            format!("{VARIABLE}={text:?} is no filter of the log: {error}"),
            "a level, or levels by target: info,tidelock=debug",
        )
    })
}

/// The lines of the log.
fn lines(
    filter: EnvFilter,
    format: LogFormat,
    to: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
) -> LogLayer {
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(to);
    match format {
        LogFormat::Text => lines.with_filter(filter).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    }
}

/// Escapes what is written: a whole event at a time, which so stays one line.
struct Escaped<W> {
    to: W,
    format: LogFormat,
}

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = match self.format {
            LogFormat::Text => plain(text.trim_end()),
            LogFormat::Json => json_line(text.trim_end()),
        };
        writeln!(self.to, "{line}")?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
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
        let filter = filter(Some(LevelFilter::WARN), Some("debug")).unwrap();
        tracing::subscriber::with_default(
            tracing_subscriber::registry().with(lines(filter, LogFormat::Text, move || Escaped {
                to: to.clone(),
                format: LogFormat::Text,
            })),
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

    /// CMD-12.
    #[test]
    fn a_json_line_is_an_object_with_its_spans_and_a_filter_names_targets() {
        let paper = Paper::default();
        let to = paper.clone();
        let filter = filter(None, Some("off,tidelock_cli=info")).unwrap();
        tracing::subscriber::with_default(
            tracing_subscriber::registry().with(lines(filter, LogFormat::Json, move || Escaped {
                to: to.clone(),
                format: LogFormat::Json,
            })),
            || {
                let _span = tracing::info_span!("request", http.route = "/v1/streams").entered();
                tracing::warn!(target: "hyper", "not this");
                tracing::debug!("nor this");
                tracing::info!(status = 500, "answered {}", "\u{1b}[31m\n\u{202e}");
            },
        );
        let written = String::from_utf8(paper.0.lock().clone()).unwrap();
        assert_eq!(written.lines().count(), 1, "{written}");
        let line: serde_json::Value = serde_json::from_str(&written).unwrap();
        assert_eq!((&line["status"], &line["level"]), (&500.into(), &"INFO".into()));
        assert_eq!(line["message"], "answered \u{1b}[31m\n\u{202e}");
        assert!(!written.contains('\u{202e}'), "{written}");
        assert_eq!(line["span"]["http.route"], "/v1/streams");
    }

    /// CMD-12.
    #[test]
    fn the_level_on_the_command_line_comes_first_and_a_wrong_filter_is_refused() {
        let shown = |level, variable| filter(level, variable).unwrap().to_string();
        assert_eq!(shown(None, None), "warn");
        assert_eq!(shown(None, Some("")), "warn");
        assert_eq!(shown(None, Some("info")), "info");
        assert_eq!(shown(Some(LevelFilter::OFF), Some("info")), "off");
        let refused = filter(None, Some("tidelock=loud")).unwrap_err().to_string();
        assert!(refused.contains("RUST_LOG=\"tidelock=loud\" is no filter"), "{refused}");
    }
}
