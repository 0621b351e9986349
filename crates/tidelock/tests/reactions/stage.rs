//! Helpers of the reaction tests.

use tidelock::prelude::*;
use tidelock::reactions::ReactionFilter;
use tidelock::reactions::TargetInfo;
use tidelock_test_stage::until;

/// One target, as operators see it.
pub(crate) async fn target(
    tidelock: &Tidelock,
    reaction: &str,
    target: &str,
) -> Option<TargetInfo> {
    tidelock.reactions().target(reaction, target).await.unwrap()
}

/// Waits until a target is blocked.
pub(crate) async fn until_blocked(tidelock: &Tidelock, reaction: &str, name: &str) -> TargetInfo {
    let blocked =
        async || target(tidelock, reaction, name).await.is_some_and(|target| target.blocked);
    until(&format!("{reaction} of {name} is blocked"), blocked).await;
    target(tidelock, reaction, name).await.unwrap()
}

/// Waits until all targets of a reaction are idle.
pub(crate) async fn until_quiet(tidelock: &Tidelock, reaction: &str) {
    let filter = ReactionFilter::named(reaction);
    let quiet = async || {
        let listed = tidelock.reactions().list(&filter).all().await.unwrap();
        listed.iter().all(|target| target.lag() == 0 && target.holder.is_none())
    };
    until(&format!("{reaction} is quiet"), quiet).await;
}
