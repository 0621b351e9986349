//! Keys of reactions: the only place that spells their record keys, queues, item keys and reserved
//! streams.
//!
//! Every reserved name begins with `~`.

use tidelock_store::{ItemKey, ItemRef, Position, QueueName, RecordKey, Result, StreamName};

use super::ReactionName;

/// The prefix of every reserved name.
const RESERVED: char = '~';

/// The type of link events, which assign events to a target.
pub(crate) const LINK: &str = "~link";
/// The type of the event that marks where a reaction began.
pub(crate) const REGISTERED: &str = "~registered";

const QUEUE: &str = "~reaction/";
const ROUTE: &str = "~route/";
const UNROUTED: &str = "~unrouted/";
const REGISTRATIONS: &str = "~registrations/";
const LINKS: &str = "~links/";
const LINK_REMOVALS: &str = "~link-removal";
const REBUILD: &str = "~rebuild/";
const SKIPPED: &str = "~skipped/";
const ROWS: &str = "projection/";
const NEWER_ROWS: &str = "projection:";
const GENERATIONS: &str = "~projection/";
const REBUILT: &str = "~projection-rebuilt/";
const REBUILDS: &str = "~projection-rebuilds";

/// Whether a stream, record, queue or item name is reserved for Tidelock.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED)
}

/// The queue of a reaction's targets.
pub(crate) fn queue(reaction: &ReactionName) -> QueueName {
    QueueName::new(format!("{QUEUE}{reaction}"))
        .expect("a reaction's name leaves room for its queue's")
}

/// The pattern of all reactions' queues.
pub(crate) fn queues() -> String {
    format!("{QUEUE}*")
}

/// The queue, or the pattern of queues, of reactions with this name or pattern.
pub(crate) fn queue_named(reaction: &str) -> String {
    format!("{QUEUE}{reaction}")
}

/// Returns the reaction whose targets are in a queue, if it is the queue of a reaction.
pub fn reaction_of(queue: &QueueName) -> Option<&str> {
    queue.as_str().strip_prefix(QUEUE)
}

/// The queue of a reaction's route item. The lease on this item is the right to route.
pub(crate) fn route_queue(reaction: &ReactionName) -> QueueName {
    QueueName::new(format!("{ROUTE}{reaction}"))
        .expect("a reaction's name leaves room for its queue's")
}

/// The pattern of all route queues.
pub(crate) fn route_queues() -> String {
    format!("{ROUTE}*")
}

/// The route item of a reaction.
pub(crate) fn route_item(reaction: &ReactionName) -> ItemRef {
    ItemRef {
        queue: route_queue(reaction),
        key: ItemKey::new("router").expect("it is short and plain"),
    }
}

/// The record of a reaction's routing cursor.
pub(crate) fn route_record(reaction: &ReactionName) -> RecordKey {
    RecordKey::new(format!("{ROUTE}{reaction}")).expect("a reaction's name leaves room for its key")
}

/// The prefix of all route records.
pub(crate) fn route_records() -> &'static str {
    ROUTE
}

/// The reaction of a route record or a route queue.
pub(crate) fn routed_reaction(name: &str) -> Option<&str> {
    name.strip_prefix(ROUTE)
}

/// The stream that marks where a reaction began.
pub(crate) fn registrations(reaction: &ReactionName) -> StreamName {
    StreamName::new(format!("{REGISTRATIONS}{reaction}"))
        .expect("a reaction's name leaves room for its stream")
}

/// The link stream of a computed target.
pub(crate) fn links(reaction: &ReactionName, target: &ItemKey) -> Result<StreamName> {
    StreamName::new(format!("{LINKS}{reaction}/{target}"))
}

/// The queue of link removals: one item per reaction, due a while after a closing.
pub(crate) fn link_removals() -> QueueName {
    QueueName::new(LINK_REMOVALS).expect("it is short and plain")
}

/// The link removal item of a reaction.
pub(crate) fn link_removal(reaction: &ReactionName) -> ItemRef {
    let key =
        ItemKey::new(reaction.as_str()).expect("a reaction's name leaves room for its item's");
    ItemRef { queue: link_removals(), key }
}

/// The item of an event whose route failed.
pub(crate) fn unrouted(position: Position) -> ItemKey {
    ItemKey::new(format!("{UNROUTED}{position:020}")).expect("it is short and plain")
}

/// Whether an item stands for an event whose route failed.
pub(crate) fn is_unrouted(key: &ItemKey) -> bool {
    key.as_str().starts_with(UNROUTED)
}

/// The position of the event that such an item stands for.
pub(crate) fn unrouted_position(key: &ItemKey) -> Option<Position> {
    Position::new(key.as_str().strip_prefix(UNROUTED)?.parse().ok()?).ok()
}

/// The pattern of the items of events whose routes failed.
pub(crate) fn unrouted_items() -> String {
    format!("{UNROUTED}*")
}

/// Whether a stream belongs to the state of reactions.
pub(crate) fn is_own_stream(stream: &str) -> bool {
    stream.starts_with(LINKS) || stream.starts_with(REGISTRATIONS)
}

/// Whether a record belongs to the state of reactions: cursors, skipped events, and rows of
/// projections.
pub(crate) fn is_own_record(key: &str) -> bool {
    [ROUTE, REBUILD, SKIPPED, ROWS, NEWER_ROWS, GENERATIONS, REBUILT]
        .iter()
        .any(|prefix| key.starts_with(prefix))
}

/// Whether a queue holds targets or routes of reactions.
pub(crate) fn is_own_queue(queue: &str) -> bool {
    queue.starts_with(QUEUE) || queue.starts_with(ROUTE)
}

/// The record of a target's rebuild.
pub(crate) fn rebuild(reaction: &str, target: &ItemKey) -> Result<RecordKey> {
    RecordKey::new(format!("{REBUILD}{reaction}/{target}"))
}

/// The record of an event that was skipped.
pub(crate) fn skipped(reaction: &ReactionName, position: Position) -> RecordKey {
    RecordKey::new(format!("{SKIPPED}{reaction}/{position:020}"))
        .expect("a reaction's name leaves room for its key")
}

/// The prefix of the records of skipped events, of one reaction or of all.
pub(crate) fn skipped_of(reaction: Option<&str>) -> String {
    reaction.map_or_else(|| SKIPPED.to_owned(), |reaction| format!("{SKIPPED}{reaction}/"))
}

/// The record that exists once a reaction was rerouted under this operation id.
pub(crate) fn rerouted(reaction: &ReactionName, operation: &str) -> Result<RecordKey> {
    RecordKey::new(format!("~reaction-operation/{reaction}/{operation}"))
}

/// The row of a projection's target, of one generation of rows.
pub(crate) fn row(projection: &str, generation: u32, target: &str) -> Result<RecordKey> {
    RecordKey::new(format!("{}{target}", rows(projection, generation)))
}

/// The prefix of a projection's rows of one generation. Those of the first one have no number.
pub(crate) fn rows(projection: &str, generation: u32) -> String {
    match generation {
        0 => format!("{ROWS}{projection}/"),
        _ => format!("{NEWER_ROWS}{generation}/{projection}/"),
    }
}

/// The record of a projection's generations.
pub(crate) fn generations(projection: &ReactionName) -> RecordKey {
    RecordKey::new(format!("{GENERATIONS}{projection}"))
        .expect("a reaction's name leaves room for its key")
}

/// The prefix of the records of all projections' generations.
pub(crate) fn all_generations() -> &'static str {
    GENERATIONS
}

/// The projection of such a record.
pub(crate) fn projection_of(generations: &RecordKey) -> Option<&str> {
    generations.as_str().strip_prefix(GENERATIONS)
}

/// The record of how far a target's row of one generation is rebuilt.
pub(crate) fn rebuilt(
    projection: &ReactionName,
    generation: u32,
    target: &ItemKey,
) -> Result<RecordKey> {
    RecordKey::new(format!("{}{target}", all_rebuilt(projection, generation)))
}

/// The prefix of such records of one generation.
pub(crate) fn all_rebuilt(projection: &ReactionName, generation: u32) -> String {
    format!("{REBUILT}{generation}/{projection}/")
}

/// The queue of projections that are rebuilt, or that have rows to delete.
pub(crate) fn projection_rebuilds() -> QueueName {
    QueueName::new(REBUILDS).expect("it is short and plain")
}

/// The item of a projection in that queue.
pub(crate) fn projection_rebuild(projection: &ReactionName) -> ItemRef {
    let key =
        ItemKey::new(projection.as_str()).expect("a reaction's name leaves room for its item's");
    ItemRef { queue: projection_rebuilds(), key }
}
