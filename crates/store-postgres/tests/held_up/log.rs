//! What is logged in this process, event by event, for those who wait until something is.

use std::fmt::{self, Write};
use std::sync::{Mutex, Once};
use std::time::Duration;

use tokio::sync::Notify;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Hears every warning.
pub(crate) struct Log;

/// What was said and nobody has waited for yet.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
static NEWS: Notify = Notify::const_new();

/// Against hanging only.
const PATIENCE: Duration = Duration::from_secs(60);

impl Log {
    pub(crate) fn listen() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            tracing::subscriber::set_global_default(Self).expect("nobody else listens");
        });
    }

    /// Waits for one event that says both, and takes it away.
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
        said.unwrap_or_else(|_| panic!("waited in vain for {what:?} of {of:?}: {SAID:?}"));
    }

    fn take(is_it: impl Fn(&str) -> bool) -> bool {
        let mut said = SAID.lock().expect("nobody panics with it");
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
        SAID.lock().expect("nobody panics with it").push(text.0);
        NEWS.notify_waiters();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// One event, as a line.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // A string takes whatever is written to it.
        let _ = write!(self.0, "{field}={value:?} ");
    }
}
