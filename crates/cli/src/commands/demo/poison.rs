//! Scene: an event that a reaction cannot handle is found, fixed and unblocked, and nothing is
//! skipped (REACT-1, REACT-4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidelock::prelude::*;
use tidelock::reactions::TargetInfo;
use tidelock::store::{NewEvent, StoreExt, StoredEvent, StreamName};
use tokio::sync::{mpsc, oneshot};

use super::stage::{Stage, joined};
use crate::failure::Failure as Stopped;

/// Longer than any of this takes.
const PATIENCE: Duration = Duration::from_secs(30);
const ATTEMPTS: u32 = 3;

pub(super) async fn play(stage: &mut Stage<'_>) -> Result<(), Stopped> {
    stage.scene("A poison event is found, fixed and unblocked")?;
    let tidelock = Tidelock::over(stage.store.clone());
    let (orders, fixed) = (stage.stream("orders")?, Arc::new(AtomicBool::new(false)));
    for address in ["Ada, Dock 1", "", "Ben, Dock 2"] {
        let placed = NewEvent::of("placed", address)?;
        stage.committed(stage.store.append(&orders, ExpectedVersion::Any, vec![placed]).await?)?;
    }
    stage.say(
        "three orders are placed; the second has no address, and the reaction that writes labels fails on it",
    )?;

    let (printed, mut labels) = mpsc::unbounded_channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let name = stage.name("labels");
    let app = labelling(&tidelock, &name, &orders, printed, fixed.clone())?;
    let running = tokio::spawn(app.run_until(async move { drop(stopped.await) }));

    let blocked = until_blocked(stage, &tidelock, &name).await?;
    stage.say(&format!(
        "tried {} times, then blocked: {}",
        blocked.failures + 1,
        blocked.error.as_deref().unwrap_or_default()
    ))?;
    let first = labels.try_recv().ok();
    let holds = first.as_deref() == Some("Ada, Dock 1") && blocked.lag() == 2;
    stage.prove(
        "the first label is printed, and the third order waits behind the second",
        holds,
        &format!("{first:?}"),
    )?;

    fixed.store(true, Ordering::SeqCst);
    tidelock.reactions().unblock(&ReactionFilter::named(&name)).await?;
    stage.say("the code is fixed, and an operator unblocks the reaction")?;
    let rest = [next(&mut labels).await, next(&mut labels).await];
    drop(stop);
    joined(running).await??;
    let holds =
        rest[0].as_deref() == Some("to be called for") && rest[1].as_deref() == Some("Ben, Dock 2");
    stage.prove(
        "it continued where it had stopped: every order has its label, in order",
        holds,
        &format!("{rest:?}"),
    )
}

fn labelling(
    tidelock: &Tidelock,
    name: &str,
    orders: &StreamName,
    printed: mpsc::UnboundedSender<String>,
    fixed: Arc<AtomicBool>,
) -> Result<tidelock::App, Stopped> {
    let source = on_any()
        .in_streams(orders.as_str())
        .retry(Retry::attempts(ATTEMPTS).backoff(Backoff::fixed(Duration::from_millis(20))));
    let label = move |order: StoredEvent, _| {
        let (printed, fixed) = (printed.clone(), fixed.clone());
        async move {
            let address: String = order.payload.to()?;
            let address = match (address.is_empty(), fixed.load(Ordering::SeqCst)) {
                (false, _) => address,
                (true, true) => "to be called for".to_owned(),
                (true, false) => return Err(HandlerError::again("an order without an address")),
            };
            // The receiver is gone once the scene is over.
            let _ = printed.send(address);
            Ok(())
        }
    };
    let app = tidelock.app().reaction(name, source, label).build();
    app.map_err(|e| Stopped::Broken(format!("the reaction cannot be registered: {e}")))
}

async fn until_blocked(
    stage: &Stage<'_>,
    tidelock: &Tidelock,
    name: &str,
) -> Result<TargetInfo, Stopped> {
    let begun = stage.store.now().await?;
    loop {
        let targets = tidelock.reactions().list(&ReactionFilter::named(name)).all().await?;
        if let Some(target) = targets.into_iter().find(|target| target.blocked) {
            return Ok(target);
        }
        if stage.store.now().await?.since(begun) > PATIENCE {
            return stage.broken("a target whose retries are used up is blocked", "it is not");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn next(labels: &mut mpsc::UnboundedReceiver<String>) -> Option<String> {
    tokio::time::timeout(PATIENCE, labels.recv()).await.ok().flatten()
}
