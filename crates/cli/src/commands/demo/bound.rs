//! Scene: a counter under contention never passes its bound (REC-4).

use std::collections::BTreeSet;
use std::sync::Arc;

use tidelock::store::{
    Bounds, Commit, CommitOutcome, Conflict, RecordKey, RecordWrite, StoreExt, ViolationKind,
};
use tokio::sync::Barrier;

use super::stage::{Stage, joined};
use crate::failure::Result;

const CALLERS: usize = 64;
const PLACES: i64 = 18;

pub(super) async fn play(stage: &mut Stage<'_>) -> Result<()> {
    stage.scene("A counter under contention keeps its bound")?;
    let taken = stage.record("boat-3/taken")?;
    stage.say(&format!(
        "a boat has {PLACES} places; {CALLERS} callers each ask for one, all at the same time"
    ))?;
    let (sums, refused) = sort(stage, ask_all(stage, &taken).await?)?;
    stage.say(&format!("granted: {}, and each got its own number", sums.len()))?;
    if let Some(first) = refused.first() {
        stage.say(&format!("refused: {}, {first}", refused.len()))?;
    }
    let all = (1..=PLACES).collect::<BTreeSet<_>>();
    stage.prove(
        &format!("the places given out are 1 to {PLACES}, each once"),
        sums == all,
        &format!("{sums:?}"),
    )?;
    let found =
        stage.store.get_one(&taken).await?.into_live().map(|record| record.value.to_string());
    let holds = found.as_deref() == Some(PLACES.to_string().as_str());
    stage.prove(
        &format!("record {taken:?} is {PLACES}, no more and no less"),
        holds,
        &format!("{found:?}"),
    )
}

async fn ask_all(stage: &Stage<'_>, taken: &RecordKey) -> Result<Vec<CommitOutcome>> {
    let start = Arc::new(Barrier::new(CALLERS));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let store = if caller % 2 == 0 { stage.store.clone() } else { stage.other.clone() };
            let commit = Commit::new().write(RecordWrite::add(taken, 1, Bounds::at_most(PLACES)));
            let start = start.clone();
            tokio::spawn(async move {
                start.wait().await;
                store.commit(commit).await
            })
        })
        .collect();
    let mut outcomes = Vec::with_capacity(CALLERS);
    for caller in callers {
        outcomes.push(joined(caller).await??);
    }
    Ok(outcomes)
}

/// The sums that were reached, and the refusals; two callers with one sum would have exceeded the
/// bound.
fn sort(
    stage: &mut Stage<'_>,
    outcomes: Vec<CommitOutcome>,
) -> Result<(BTreeSet<i64>, Vec<Conflict>)> {
    let (mut sums, mut refused) = (BTreeSet::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            CommitOutcome::Committed(committed) => {
                let sum = committed.writes.first().and_then(|written| written.sum);
                if !sum.is_some_and(|sum| sums.insert(sum)) {
                    return stage
                        .broken("every granted caller gets its own number", &format!("{sum:?}"));
                }
            }
            CommitOutcome::Conflict(conflict) if conflict.has(ViolationKind::Exceeded) => {
                refused.push(conflict);
            }
            CommitOutcome::Conflict(other) => {
                return stage.broken("only the bound refuses a caller", &other.to_string());
            }
        }
    }
    Ok((sums, refused))
}
