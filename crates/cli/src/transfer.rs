//! A whole store as lines of JSON, out of one store and into another.
//!
//! The first line says what it is, the last one how much there was and a checksum of all before it.
//! Between them: what was trimmed away of streams, every event in the order of the feed, which
//! streams are closed, every record, every work item. What a store gives out itself begins anew in
//! the other one: positions, revisions, fences, the times at which events were recorded.

mod batch;
mod export;
mod gap;
mod import;
mod keys;
mod landmarks;
mod line;
mod note;
mod reader;
mod source;
mod survey;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use export::export;
pub(crate) use import::{Import, Imported};
pub(crate) use line::Totals;
pub(crate) use source::Source;
use writer::Writer;
