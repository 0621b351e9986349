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
mod failure;
mod gone;
mod handler;
mod handling;
mod input;
pub(crate) mod keys;
pub(crate) mod leftovers;
mod links;
mod listing;
mod operators;
mod options;
mod reaction;
mod rebuild;
mod recent;
mod relocation;
mod route;
mod router;
mod source;
mod unfinished;
mod unrouted;

pub use app::{App, AppBuilder};
pub use backoff::Backoff;
pub use context::Context;
pub use failure::Failure;
pub use gone::{EventsGone, ResetError};
pub use input::Input;
pub use keys::{is_reserved, reaction_of};
pub use listing::{Followed, FollowedPage, RouteState};
pub use operators::{Effects, ReactionFilter, Reactions};
pub use options::{Exhausted, Start};
pub use reaction::{InvalidReaction, ReactionName};
pub use relocation::{KeptByReactions, Landmark, Relocation};
pub use route::IntoTarget;
pub use router::Rerouted;
pub use source::{Source, on, on_any};
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
