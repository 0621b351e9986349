//! Reactions: event handlers that run once per event and target, in order per target.
//!
//! Each event is routed to a *target*: its stream, or a name computed from it. Each (reaction,
//! target) is a work item with its own cursor, so targets proceed in parallel and the events of one
//! target in order. What a handler stages for the store is committed together with its ack: exactly
//! once. External effects happen at least once, under a stable idempotency key.
//!
//! [`App`](crate::App) registers and runs reactions; [`Reactions`] lists and adjusts them.

pub(crate) mod app;
mod context;
mod gone;
mod handler;
mod input;
pub(crate) mod keys;
pub(crate) mod leftovers;
mod links;
mod listing;
mod operators;
mod options;
mod position_map;
mod projections;
pub(crate) mod reaction;
mod rebuild;
mod recent;
mod route;
mod router;
mod skip;
mod subscription;
mod unfinished;
mod unrouted;
mod wait_for;
mod work;

use app::AppBuilder;
pub use context::ReactionCtx;
pub use gone::{EventsGone, ResetError};
pub use input::Input;
pub use keys::{is_reserved, reaction_of};
pub use listing::{RouteState, TargetInfo};
pub use operators::{ReactionFilter, Reactions, ResetEffects};
pub use options::{OnExhausted, StartFrom};
pub use position_map::{MappedPosition, PositionMap, ReactionStorage};
pub use projections::{ProjectionInfo, RebuildInfo, RebuildOutcome};
use reaction::BuildError;
pub(crate) use reaction::Reaction;
pub use reaction::ReactionName;
pub use route::IntoTarget;
pub use router::Rerouted;
pub(crate) use router::{free_routes, is_behind};
pub use skip::{SkipOutcome, SkippedEvent};
pub use subscription::{Subscription, on, on_any};
pub use unfinished::Unfinished;
pub use wait_for::WaitFor;

use crate::handle::Tidelock;

impl Tidelock {
    /// Creates an application builder over this store.
    ///
    /// Register the reactions and workflows of the process, then build and run it.
    pub fn app(&self) -> AppBuilder {
        AppBuilder::new(self.clone())
    }

    /// Returns the operator's view of the store's reactions, whichever process runs them.
    pub fn reactions(&self) -> Reactions {
        Reactions::new(self.store().clone())
    }
}
