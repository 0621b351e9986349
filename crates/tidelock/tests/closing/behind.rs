//! Closing behind a slow reaction.

use std::time::Duration;

use tidelock::closing::discard;
use tidelock::prelude::*;
use tidelock::store::StoredEvent;
use tidelock_test_stage::{Running, brisk, in_memory, until};

use crate::account::{Account, paid_into};
use crate::stage::target;

/// CLOSE-2. In simulated time: a handler that needs ten seconds for each of twenty events, and a
/// minute's patience.
#[test]
fn a_close_that_a_slow_reaction_holds_up_says_how_far_behind_it_is_and_that_it_comes_on() {
    in_memory(|stage| async move {
        let tidelock = stage.tidelock().await;
        paid_into(&tidelock, 20).await;
        for (name, computed) in [("own", false), ("all", true)] {
            let source = on_any().in_streams("account-").max_events_per_lease(1);
            let source = if computed { source.to(|_: &StoredEvent| "account-7") } else { source };
            let slow = |_: StoredEvent, _: ReactionCtx| async {
                tokio::time::sleep(Duration::from_secs(10)).await;
                Ok(())
            };
            let running =
                Running::start(tidelock.app().worker(brisk("teller")).reaction(name, source, slow));
            until("it has begun", async || target(&tidelock, name, "account-7").await.is_some())
                .await;
            let books = tidelock
                .aggregate::<Account>("7")
                .archive_to(discard)
                .within(Duration::from_secs(60));
            let refused = books
                .ignore_reaction(if computed { "own" } else { "all" })
                .close()
                .await
                .unwrap_err();
            let there = target(&tidelock, name, "account-7").await.unwrap();
            let told = format!(
                r#"reaction "{name}" is not done with target "account-7": it is {} events behind, but it makes progress"#,
                there.lag()
            );
            assert!(refused.to_string().contains(&told), "{refused}");
            assert!(there.lag() < 20 && there.at.get() > 0, "{there:?}");
            running.stop().await;
            let books = tidelock
                .aggregate::<Account>("7")
                .archive_to(discard)
                .within(Duration::from_secs(60));
            let refused = books
                .ignore_reaction(if computed { "own" } else { "all" })
                .close()
                .await
                .unwrap_err();
            let lag = target(&tidelock, name, "account-7").await.unwrap().lag();
            assert!(
                refused
                    .to_string()
                    .contains(&format!("{lag} events behind; is a process running it?")),
                "{refused}"
            );
        }
    });
}
