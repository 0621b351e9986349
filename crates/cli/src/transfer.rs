//! Export and import of a whole store as JSON lines.
//!
//! The first line is a header, the last one has totals and a checksum of all lines before it.
//! Between them: trimmed streams, every event in the order of the feed, closed streams, every
//! record, every work item. What a store assigns itself starts over in the other one: positions,
//! revisions, fences, recording times.

mod batch;
mod export;
mod gap;
mod import;
mod import_progress;
mod keys;
mod line;
mod position_lookup;
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
