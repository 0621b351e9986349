//! Changes of a few hot scopes, each under an operation id.

use serde_json::Value;
use tidelock::ErrorKind;
use tidelock::scopes::ScopeKind;

use super::Client;
use crate::simulator::state::{Board, HOT};

impl Client {
    /// Edits a hot scope in the store, without an operation id: asked once.
    pub(super) async fn edit_scope(&self, id: &str) {
        let (nth, pushes) = self.draw(|rng| (rng.below(HOT), rng.one_in(2)));
        let scope = self.tidelock.scope::<Value>(ScopeKind::USER, format!("board-{nth}"));
        let world = &self.process.world;
        let kind = if pushes { "push" } else { "count" };
        let name = format!("{nth}/{id}");
        world.asks(kind, &name);
        let edited = match pushes {
            true => scope.push("names", id).await.map(drop),
            false => scope.increment("count", 1).await.map(drop),
        };
        if edited.is_ok() {
            self.sometimes("the store edits a document");
            world.told(kind, &name);
        }
    }

    pub(super) async fn change_scope(&self, id: &str) {
        let (nth, pushes) = self.draw(|rng| (rng.below(HOT), rng.one_in(2)));
        let scope = self.tidelock.scope::<Board>(ScopeKind::USER, format!("board-{nth}"));
        let world = &self.process.world;
        let kind = if pushes { "push" } else { "count" };
        let name = format!("{nth}/{id}");
        world.asks(kind, &name);
        let change = async || {
            let change = scope.operation_id(id);
            match pushes {
                true => change.push("names", id).await.map(|done| done.replayed),
                false => change.increment("count", 1).await.map(|done| done.replayed),
            }
        };
        let mut changed = self.insist(change).await;
        if matches!(changed, Some(Ok(_))) && self.draw(|rng| rng.one_in(4)) {
            // As if the answer had been lost.
            changed = self.insist(change).await.or(changed);
        }
        match changed {
            Some(Ok(replayed)) => {
                if replayed {
                    self.sometimes("scope operation is repeated");
                }
                world.told(kind, &name);
            }
            Some(Err(error)) if error.kind() == ErrorKind::Conflict => {}
            Some(Err(error)) => self.strange("a mutation", &error),
            None => {}
        }
    }
}
