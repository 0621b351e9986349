//! A scope in memory, beside a lock of the runtime around the same state.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidelock::scopes::{Scope, ScopeKind};
use tokio::sync::Mutex;

use crate::failure::Failure;
use crate::measure::{self, Baseline, Caller, Callers, Comparison, Measured};
use crate::rows;
use crate::workloads::{Bench, Case};

/// As large as the rows of the other workloads.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
struct Document {
    count: u64,
    note: String,
}

pub(in crate::workloads) async fn measure(
    bench: &Bench<'_>,
    case: &Case,
) -> Result<Measured, Failure> {
    let document = Document { count: 0, note: rows::payload() };
    let scope = Scope::in_memory(ScopeKind::REQUEST, "hot", document.clone());
    let lock = Arc::new(Mutex::new(Arc::new(document)));
    let ours = Callers(vec![Mutator { scope }; case.callers]);
    let baseline = Callers(vec![Locker { lock }; case.baseline]);
    let comparison =
        Comparison::of(ours).against(vec![Baseline { name: "mutex", side: Box::new(baseline) }]);
    measure::measure(comparison, bench.time, bench.progress).await
}

#[derive(Clone)]
struct Mutator {
    scope: Scope<Document>,
}

impl Caller for Mutator {
    async fn call(&mut self) -> Result<u64, Failure> {
        let mutated = self.scope.mutate(|document| document.count += 1).await;
        mutated.map_err(|error| Failure::Answer(format!("a mutation was lost: {error}")))?;
        Ok(1)
    }
}

/// Copies the state, changes the copy and replaces it: readers of the old one are not disturbed.
#[derive(Clone)]
struct Locker {
    lock: Arc<Mutex<Arc<Document>>>,
}

impl Caller for Locker {
    async fn call(&mut self) -> Result<u64, Failure> {
        let mut held = self.lock.lock().await;
        let mut document = Document::clone(&held);
        document.count += 1;
        *held = Arc::new(document);
        Ok(1)
    }
}
