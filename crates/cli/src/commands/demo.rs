//! `tidelock demo`: a short story on a real store, a line per thing that happens.
//!
//! Each scene shows one promise under the circumstances that usually break it, and then reads back
//! from the store that it was kept. Nothing is staged: the races are races, the lease really runs
//! out. When the story is told, the store can be looked at in the inspector, and a shop goes on in
//! it.

mod stage;

mod bound;
mod fence;
mod once;
mod oversell;
mod poison;
mod quota;
mod race;
mod resume;
mod whole;

mod inspector;
mod shop;

use crate::args::DemoArgs;
use crate::failure::Failure;
use crate::output::Output;
use stage::Stage;

/// Plays all scenes, and opens the doors unless they are all that is wanted.
pub(crate) async fn run(
    args: DemoArgs,
    store: Option<String>,
    out: &mut Output,
) -> Result<(), Failure> {
    let mut stage = Stage::set(store, out).await?;
    let mut played = play(&mut stage).await;
    if played.is_ok() && !args.once {
        played = inspector::serve(&mut stage, args.listen).await;
    }
    // A scene that failed must not leave its file behind.
    let cleared = stage.clear(played.is_ok()).await;
    played.and(cleared)
}

async fn play(stage: &mut Stage<'_>) -> Result<(), Failure> {
    race::play(stage).await?;
    fence::play(stage).await?;
    bound::play(stage).await?;
    whole::play(stage).await?;
    oversell::play(stage).await?;
    poison::play(stage).await?;
    once::play(stage).await?;
    quota::play(stage).await?;
    resume::play(stage).await
}
