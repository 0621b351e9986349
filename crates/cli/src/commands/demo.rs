//! `tidelock demo`: a short story on a real store, one line per step.
//!
//! Each scene shows one promise under the circumstances that usually break it, and then reads back
//! from the store that it was kept. Nothing is simulated: the races are races, the lease really
//! expires. After the story the inspector is served on the store, with a running shop.

mod stage;

mod atomic_commit;
mod bound;
mod fence;
mod once;
mod oversell;
mod poison;
mod quota;
mod race;
mod resume;

mod inspector;
mod shop;

use crate::args::DemoArgs;
use crate::failure::Result;
use crate::output::Output;
use stage::Stage;

/// Plays all scenes, and then serves the inspector unless `--once` is given.
pub(crate) async fn run(args: DemoArgs, store: Option<String>, out: &mut Output) -> Result<()> {
    let mut stage = Stage::set(store, out).await?;
    let mut played = play(&mut stage).await;
    if played.is_ok() && !args.once {
        played = inspector::serve(&mut stage, args.listen).await;
    }
    // A scene that failed must not leave its file behind.
    let cleared = stage.clear(played.is_ok()).await;
    played.and(cleared)
}

async fn play(stage: &mut Stage<'_>) -> Result<()> {
    race::play(stage).await?;
    fence::play(stage).await?;
    bound::play(stage).await?;
    atomic_commit::play(stage).await?;
    oversell::play(stage).await?;
    poison::play(stage).await?;
    once::play(stage).await?;
    quota::play(stage).await?;
    resume::play(stage).await
}
