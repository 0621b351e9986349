//! The only place where a record key, a queue, an item key or a reserved stream of reactions is
//! spelled.
//!
//! Everything that Tidelock names for itself begins with `~`.

use tidelock_store::{ItemKey, ItemRef, Position, QueueName, RecordKey, Result, StreamName};

use super::ReactionName;

/// What every reserved name begins with.
const RESERVED: char = '~';

/// The type of the events that say which event belongs to a target.
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
const ROWS: &str = "projection/";

/// Whether a name is Tidelock's own: of a stream, a record, a queue or an item.
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

/// The queue, or the pattern of queues, of the reactions with this name or pattern.
pub(crate) fn queue_named(reaction: &str) -> String {
    format!("{QUEUE}{reaction}")
}

/// The reaction whose targets are the items of a queue; nothing, if it is the queue of something
/// else.
pub fn reaction_of(queue: &QueueName) -> Option<&str> {
    queue.as_str().strip_prefix(QUEUE)
}

/// The queue of the one item that stands for the right to route a reaction's events.
pub(crate) fn route_queue(reaction: &ReactionName) -> QueueName {
    QueueName::new(format!("{ROUTE}{reaction}"))
        .expect("a reaction's name leaves room for its queue's")
}

/// The pattern of all route queues.
pub(crate) fn route_queues() -> String {
    format!("{ROUTE}*")
}

/// The right to route a reaction's events.
pub(crate) fn route_item(reaction: &ReactionName) -> ItemRef {
    ItemRef {
        queue: route_queue(reaction),
        key: ItemKey::new("router").expect("it is short and plain"),
    }
}

/// How far a reaction's events were routed.
pub(crate) fn route_record(reaction: &ReactionName) -> RecordKey {
    RecordKey::new(format!("{ROUTE}{reaction}")).expect("a reaction's name leaves room for its key")
}

/// What the keys of all route records begin with.
pub(crate) fn route_records() -> &'static str {
    ROUTE
}

/// The reaction that a route record, or a route queue, belongs to.
pub(crate) fn routed_reaction(name: &str) -> Option<&str> {
    name.strip_prefix(ROUTE)
}

/// Where a reaction's beginning is noted.
pub(crate) fn registrations(reaction: &ReactionName) -> StreamName {
    StreamName::new(format!("{REGISTRATIONS}{reaction}"))
        .expect("a reaction's name leaves room for its stream")
}

/// The events that were routed to a computed target.
pub(crate) fn links(reaction: &ReactionName, target: &ItemKey) -> Result<StreamName> {
    StreamName::new(format!("{LINKS}{reaction}/{target}"))
}

/// The reactions whose links are to be cleared of those that lead to nothing, each due a while
/// after a closing.
pub(crate) fn link_removals() -> QueueName {
    QueueName::new(LINK_REMOVALS).expect("it is short and plain")
}

/// The right to clear a reaction's links.
pub(crate) fn link_removal(reaction: &ReactionName) -> ItemRef {
    let key =
        ItemKey::new(reaction.as_str()).expect("a reaction's name leaves room for its item's");
    ItemRef { queue: link_removals(), key }
}

/// The item that stands for an event whose route failed.
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

/// The pattern of the items that stand for events whose routes failed.
pub(crate) fn unrouted_items() -> String {
    format!("{UNROUTED}*")
}

/// Whether a stream is kept by reactions for themselves.
pub(crate) fn is_own_stream(stream: &str) -> bool {
    stream.starts_with(LINKS) || stream.starts_with(REGISTRATIONS)
}

/// Whether a record is kept by reactions: how far they are, and the rows of projections.
pub(crate) fn is_own_record(key: &str) -> bool {
    [ROUTE, REBUILD, ROWS].iter().any(|prefix| key.starts_with(prefix))
}

/// Whether a queue is that of a reaction's targets, or of its route.
pub(crate) fn is_own_queue(queue: &str) -> bool {
    queue.starts_with(QUEUE) || queue.starts_with(ROUTE)
}

/// That a target is being rebuilt.
pub(crate) fn rebuild(reaction: &str, target: &ItemKey) -> Result<RecordKey> {
    RecordKey::new(format!("{REBUILD}{reaction}/{target}"))
}

/// There once a reaction was routed anew under this operation.
pub(crate) fn rerouted(reaction: &ReactionName, operation: &str) -> Result<RecordKey> {
    RecordKey::new(format!("~reaction-operation/{reaction}/{operation}"))
}

/// The row that a projection keeps for a target.
pub(crate) fn row(reaction: &str, target: &str) -> Result<RecordKey> {
    RecordKey::new(format!("{ROWS}{reaction}/{target}"))
}

/// The row's prefix, for scanning a projection.
pub(crate) fn rows(reaction: &str) -> String {
    format!("{ROWS}{reaction}/")
}
