//! Captures the log of this process, for tests that wait for an event.

use std::fmt::{self, Write};
use std::sync::{Mutex, Once};
use std::time::Duration;

use tokio::sync::Notify;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Captures every warning.
pub(crate) struct Log;

/// Events for which no test has waited yet.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
static NEWS: Notify = Notify::const_new();

/// Against hanging only.
const PATIENCE: Duration = Duration::from_secs(60);

impl Log {
    pub(crate) fn listen() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            tracing::subscriber::set_global_default(Self).expect("there is no other subscriber");
        });
    }

    /// Waits for an event with both texts, and removes it.
    pub(crate) async fn until_said(what: &str, of: &str) {
        let said = async {
            loop {
                let news = NEWS.notified();
                if Self::take(|said| said.contains(what) && said.contains(of)) {
                    return;
                }
                news.await;
            }
        };
        let said = tokio::time::timeout(PATIENCE, said).await;
        said.unwrap_or_else(|_| panic!("timed out waiting for {what:?} of {of:?}: {SAID:?}"));
    }

    fn take(is_it: impl Fn(&str) -> bool) -> bool {
        let mut said = SAID.lock().expect("no panic while locked");
        let found = said.iter().position(|said| is_it(said));
        found.map(|at| said.remove(at)).is_some()
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        SAID.lock().expect("no panic while locked").push(text.0);
        NEWS.notify_waiters();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// One event, as a line.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{field}={value:?} ");
    }
}
