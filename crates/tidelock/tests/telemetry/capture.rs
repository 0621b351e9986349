//! A subscriber that keeps everything that Tidelock logs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, OnceLock};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// In every payload of these tests, and nowhere else.
pub(crate) const CANARY: &str = "canary-7f3a";

thread_local! {
    /// The spans that this thread is in, innermost last.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// A log event, or a span.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    /// The message, or the span's name.
    pub(crate) message: String,
    pub(crate) fields: BTreeMap<&'static str, String>,
    /// The enclosing span.
    pub(crate) span: Option<Box<Said>>,
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => drop(self.fields.insert(name, format!("{value:?}"))),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

#[derive(Debug, Default)]
struct Heard {
    spans: Vec<Said>,
    said: Vec<Said>,
}

static HEARD: OnceLock<Mutex<Heard>> = OnceLock::new();

/// Captures everything from now on.
pub(crate) fn listen() {
    HEARD.get_or_init(|| {
        tracing::subscriber::set_global_default(Capture).unwrap();
        Mutex::default()
    });
}

/// Everything logged with this field value, in order.
pub(crate) fn said(field: &str, value: &str) -> Vec<Said> {
    let heard = HEARD.get().unwrap().lock().unwrap();
    heard
        .said
        .iter()
        .filter(|said| said.fields.get(field).is_some_and(|is| is == value))
        .cloned()
        .collect()
}

/// Every span of this name with this field value, in order.
pub(crate) fn spans(name: &str, field: &str, value: &str) -> Vec<Said> {
    let heard = HEARD.get().unwrap().lock().unwrap();
    let is_meant =
        |said: &&Said| said.message == name && said.fields.get(field).is_some_and(|is| is == value);
    heard.spans.iter().filter(is_meant).cloned().collect()
}

/// The breadcrumbs of a reaction's targets, in order.
pub(crate) fn breadcrumbs(reaction: &str) -> Vec<Said> {
    said("queue", &format!("~reaction/{reaction}"))
}

/// Their messages.
pub(crate) fn trail(reaction: &str) -> Vec<String> {
    breadcrumbs(reaction).into_iter().map(|said| said.message).collect()
}

/// No payload was ever logged, in any field.
pub(crate) fn assert_discreet() {
    let heard = HEARD.get().unwrap().lock().unwrap();
    for said in heard.said.iter().chain(&heard.spans) {
        assert!(!format!("{said:?}").contains(CANARY), "a payload was said: {said:?}");
    }
}

struct Capture;

impl Subscriber for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tidelock")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut said = Said { message: span.metadata().name().to_owned(), ..Said::default() };
        span.record(&mut said);
        let mut heard = HEARD.get().unwrap().lock().unwrap();
        heard.spans.push(said);
        Id::from_u64(heard.spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut said = Said::default();
        event.record(&mut said);
        let inside = INSIDE.with_borrow(|inside| inside.last().copied());
        let mut heard = HEARD.get().unwrap().lock().unwrap();
        said.span = inside.map(|id| Box::new(heard.spans[id as usize - 1].clone()));
        heard.said.push(said);
    }

    fn enter(&self, span: &Id) {
        INSIDE.with_borrow_mut(|inside| inside.push(span.into_u64()));
    }

    fn exit(&self, _: &Id) {
        INSIDE.with_borrow_mut(|inside| inside.truncate(inside.len().saturating_sub(1)));
    }
}
