//! Reactions: handlers that follow events, once per event and target, in order per target.
//!
//! Each event is routed to a *target*: its own stream, or a name computed from it. Each (reaction,
//! target) is a work item with a cursor of its own, so targets proceed in parallel and one target's
//! events in order. What a handler writes to the store lands in the same commit as its ack: exactly
//! once. What it does elsewhere is done at least once, under a key that is always the same.
//!
//! [`App`] registers and runs reactions; [`Reactions`] shows and adjusts them.

mod app;
mod backoff;
mod context;
mod gone;
mod handler;
mod handler_error;
mod input;
pub(crate) mod keys;
pub(crate) mod leftovers;
mod links;
mod listing;
mod operators;
mod options;
mod position_map;
mod reaction;
mod rebuild;
mod recent;
mod route;
mod router;
mod subscription;
mod unfinished;
mod unrouted;
mod work;

pub use app::{App, AppBuilder};
pub use backoff::Backoff;
pub use context::ReactionCtx;
pub use gone::{EventsGone, ResetError};
pub use handler_error::HandlerError;
pub use input::Input;
pub use keys::{is_reserved, reaction_of};
pub use listing::{FollowedPage, RouteState, TargetInfo};
pub use operators::{ReactionFilter, Reactions, ResetEffects};
pub use options::{OnExhausted, StartFrom};
pub use position_map::{KeptByReactions, MappedPosition, PositionMap};
pub use reaction::{BuildError, ReactionName};
pub use route::IntoTarget;
pub use router::Rerouted;
pub use subscription::{Subscription, on, on_any};
pub use unfinished::Unfinished;

use crate::handle::Tidelock;

impl Tidelock {
    /// An application over this store: register what the process runs, build it and run it.
    pub fn app(&self) -> AppBuilder {
        AppBuilder::new(self.clone())
    }

    /// The reactions of this store, whoever runs them: to look at, and to adjust.
    pub fn reactions(&self) -> Reactions {
        Reactions::new(self.store().clone())
    }
}
