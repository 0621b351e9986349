//! Operators, at the worst moment: each action is one that the command and the HTTP API offer.

use std::time::Duration;

use tidelock::reactions::{ReactionFilter, ResetEffects};
use tidelock::runs::{RunError, RunFilter, RunState};
use tidelock::store::{Adjustment, ItemFilter, NamePattern};
use tidelock::{Tidelock, When};

use super::app::REACTIONS;
use super::clients::close_books;
use super::fault::Fault;
use super::process::Process;
use super::state::STREAMS;

/// Carries out an action from this process.
pub(crate) async fn act(process: &Process, fault: Fault) {
    let tidelock = process.tidelock();
    match fault {
        Fault::Unblock => unblock(&tidelock).await,
        Fault::Reset => reset(process, &tidelock).await,
        Fault::Cancel => cancel(process, &tidelock).await,
        Fault::Close => close_books(process).await,
        Fault::Defer => defer(process, &tidelock).await,
        _ => {}
    }
}

/// Unblocks everything, and resumes runs that are parked. What fails is done again later.
pub(crate) async fn unblock(tidelock: &Tidelock) {
    let blocked = ItemFilter { queue: NamePattern::like("*"), ..ItemFilter::default() };
    let _adjusted = tidelock.store().adjust(blocked.blocked(true), Adjustment::Unblock).await;
    let Ok(open) = tidelock.runs().list(&RunFilter::all().state(RunState::Open)).all().await else {
        return;
    };
    for run in open {
        let _status_or_failure = tidelock.runs().run(&run.run).resume().await;
    }
}

/// Sends the signals of clients that died before they did.
pub(crate) async fn signal_all(tidelock: &Tidelock) {
    let Ok(open) = tidelock.runs().list(&RunFilter::all().state(RunState::Open)).all().await else {
        return;
    };
    for run in open {
        for signal in ["go", "hurry"] {
            let handle = tidelock.runs().run(&run.run);
            let _sent_or_ended = handle.signal(signal, &()).id(signal).await;
        }
    }
}

async fn reset(process: &Process, tidelock: &Tidelock) {
    let (reaction, target) = process.draw(|rng| {
        let reaction = *rng.pick(&REACTIONS);
        let target = match reaction {
            "gather" => format!("pile-{}", rng.below(2)),
            _ => format!("work-{}", rng.below(STREAMS)),
        };
        (reaction, target)
    });
    process.world.facts(|facts| facts.reset.insert((reaction.to_owned(), target.clone())));
    process.world.sometimes("target is rebuilt");
    let filter = ReactionFilter::named(reaction).target(&target);
    let _reset_or_refused = tidelock.reactions().reset(&filter, ResetEffects::Keep).await;
}

async fn cancel(process: &Process, tidelock: &Tidelock) {
    let runs: Vec<String> = process.world.facts(|facts| {
        facts.asked.get("run").into_iter().flat_map(|runs| runs.keys().cloned()).collect()
    });
    if runs.is_empty() {
        return;
    }
    let run = process.draw(|rng| rng.pick(&runs).clone());
    let handle = tidelock.runs().run(&run);
    let ended = match process.draw(|rng| rng.one_in(3)) {
        true => handle.terminate("an operator says so").await,
        false => handle.cancel("an operator says so").await,
    };
    process.world.facts(|facts| facts.reset.insert(("run".to_owned(), run)));
    match ended {
        Ok(()) => process.world.sometimes("run is cancelled"),
        Err(RunError::Ended { .. } | RunError::NoRun { .. } | RunError::Store(_)) => {}
        Err(RunError::Contended { .. }) => {}
        Err(error) => process.world.problem(format!("an operator could not end a run: {error}")),
    }
}

async fn defer(process: &Process, tidelock: &Tidelock) {
    let (nth, long) = process.draw(|rng| (rng.below(STREAMS), rng.millis(100, 5_000)));
    let filter = ReactionFilter::all().target(format!("work-{nth}"));
    let _deferred = tidelock.reactions().defer(&filter, When::In(long)).await;
    let priority = process.draw(|rng| i16::try_from(rng.below(3)).unwrap_or(0) - 1);
    let _prioritized = tidelock.reactions().prioritize(&filter, priority).await;
    process.sleep(Duration::from_millis(1)).await;
}
