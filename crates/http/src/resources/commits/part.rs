//! The parts of a commit: what each of them stages.

use serde::Deserialize;
use serde_json::Value;
use tidelock::Tx;
use tidelock::claims::Claims;
use tidelock::problem::Problem;
use tidelock::runs::{RunError, RunId, Runs};
use tidelock::scopes::DocumentChange;
use tidelock::store::{
    Bounds, Edit, ExpectedRevision, ExpectedVersion, Fence, Guard, NewEvent, RawJson, RecordKey,
    RecordWrite, StoreError, StoreExt, StreamName, When,
};
use utoipa::ToSchema;

use super::super::claims::key_of;
use super::super::durations::{self, Millis};
use super::super::queues::{EnqueueRequest, SettleItem, queue};
use super::super::rates::{self, RateUseDto};
use super::super::runs::{SignalRequest, StartRequest};
use super::super::scopes::{kind, problems};
use super::super::streams::expectation::Expected;
use super::super::streams::{NewEventDto, check_is_not_reserved};
use super::super::{quotas, records};
use super::refusal::Subject;
use super::response::{CommitAppendDto, CommitRecordDto, CommitScopeDto};
use crate::app_state::AppState;

/// Events to append to a stream.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AppendPart {
    /// The stream.
    #[schema(value_type = String, min_length = 1, max_length = 256, example = "order-7")]
    pub(super) stream: StreamName,
    /// The events, in this order. They have no ids of their own: the commit has its key.
    #[schema(min_items = 1, max_items = 1000)]
    events: Vec<NewEventDto>,
    /// The expected version; any by default.
    expected: Option<Expected>,
}

impl AppendPart {
    /// Takes the events, each under an id.
    ///
    /// The id of an event would make its append happen once, and the other parts each time.
    pub(super) fn take_events(&mut self) -> Result<Vec<NewEvent>, Problem> {
        if self.events.iter().any(NewEventDto::has_id) {
            let detail = format!(
                "stream {:?}: an event of a commit has no id of its own; an Idempotency-Key makes all of the commit happen once",
                self.stream
            );
            return Err(Problem::bad_request("invalid", detail));
        }
        Ok(std::mem::take(&mut self.events).into_iter().map(NewEventDto::named).collect())
    }

    pub(super) fn stage(&self, tx: &Tx, events: &[NewEvent]) -> Result<CommitAppendDto, Problem> {
        check_is_not_reserved(&self.stream)?;
        if events.is_empty() {
            let detail = format!("stream {:?}: there are no events to append", self.stream);
            return Err(Problem::bad_request("events-missing", detail));
        }
        tx.append_to(self.stream.as_str(), self.expected(), events.to_vec())?;
        let events = events.iter().map(|event| event.id).collect();
        Ok(CommitAppendDto { stream: self.stream.clone(), events, version: None, position: None })
    }

    fn expected(&self) -> ExpectedVersion {
        self.expected.map_or(ExpectedVersion::Any, Expected::version)
    }
}

/// A record to write.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordPart {
    /// The key.
    #[schema(value_type = String, min_length = 1, max_length = 512, example = "orders/7")]
    pub(super) key: RecordKey,
    /// The expected revision; any by default.
    expected: Option<Expected>,
    /// What to do with it.
    change: RecordChangeDto,
    /// It expires this long after the commit; never by default.
    #[schema(value_type = Option<u64>, minimum = 1)]
    ttl_ms: Option<Millis>,
}

/// A change of a record.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schema(as = RecordChange)]
pub(crate) enum RecordChangeDto {
    /// Sets its value.
    #[schema(value_type = Value)]
    Put(RawJson),
    /// Deletes it.
    Delete,
    /// Adds to an integer, zero if there is none, within bounds.
    Add(AddChange),
}

/// An addition to a record.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddChange {
    /// What is added.
    #[schema(example = 1)]
    delta: i64,
    /// The least sum.
    min: Option<i64>,
    /// The greatest sum.
    max: Option<i64>,
}

impl RecordPart {
    pub(super) fn stage(&self, tx: &Tx) -> Result<CommitRecordDto, Problem> {
        records::check_is_not_reserved(&self.key)?;
        let expected = self.expected.map_or(ExpectedRevision::Any, Expected::revision);
        let mut write = match &self.change {
            RecordChangeDto::Put(value) => RecordWrite::put(&self.key, expected, value.clone()),
            RecordChangeDto::Delete => RecordWrite::delete(&self.key, expected),
            RecordChangeDto::Add(AddChange { delta, min, max }) => {
                let within = Bounds { min: *min, max: *max };
                RecordWrite { expected, ..RecordWrite::add(&self.key, *delta, within) }
            }
        };
        if let Some(ttl) = self.ttl_ms {
            write = write.expiring(When::In(durations::some(ttl, "ttl_ms")?));
        }
        tx.write(write)?;
        Ok(CommitRecordDto { key: self.key.clone(), revision: None, sum: None })
    }
}

/// A change of a scope.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScopePart {
    /// Its kind.
    #[schema(min_length = 1, example = "user")]
    kind: String,
    /// Its id.
    #[schema(min_length = 1, example = "ada")]
    id: String,
    /// The expected revision; any by default.
    expected: Option<Expected>,
    /// What to do with its document.
    change: ScopeChangeDto,
    /// It expires this long after its last change.
    #[schema(value_type = Option<u64>, minimum = 1)]
    ttl_ms: Option<Millis>,
}

/// A change of a scope's document. `at` is a field's name, a JSON pointer, or empty for the whole
/// document.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schema(as = ScopeChange)]
pub(crate) enum ScopeChangeDto {
    /// Replaces the document.
    Set(Value),
    /// Merges a patch (RFC 7396).
    Patch(Value),
    /// Adds to an integer, zero if there is none.
    Increment(IncrementChange),
    /// Appends to a list, empty if there is none.
    Push(PushChange),
    /// Sets an entry of an object.
    SetEntry(SetEntryChange),
    /// Removes an entry of an object.
    RemoveEntry(RemoveEntryChange),
    /// Deletes the scope.
    Delete,
}

/// An addition inside a document.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IncrementChange {
    /// The integer.
    #[serde(default)]
    #[schema(example = "visits")]
    at: String,
    /// What is added.
    #[schema(example = 1)]
    by: i64,
}

/// A new last item of a list inside a document.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PushChange {
    /// The list.
    #[serde(default)]
    #[schema(example = "seen")]
    at: String,
    /// The new last item.
    value: Value,
}

/// An entry of an object inside a document.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetEntryChange {
    /// The object.
    #[serde(default)]
    #[schema(example = "flags")]
    at: String,
    /// The entry's key.
    #[schema(example = "beta")]
    key: String,
    /// The entry.
    value: Value,
}

/// The removal of an entry of an object inside a document.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoveEntryChange {
    /// The object.
    #[serde(default)]
    #[schema(example = "flags")]
    at: String,
    /// The entry's key.
    #[schema(example = "beta")]
    key: String,
}

impl ScopeChangeDto {
    fn change(&self) -> Result<DocumentChange, StoreError> {
        let edit = match self.clone() {
            Self::Set(value) => return Ok(DocumentChange::Set(value)),
            Self::Delete => return Ok(DocumentChange::Delete),
            Self::Patch(patch) => Edit::Merge(RawJson::new(&patch)?),
            Self::Increment(IncrementChange { at, by }) => Edit::Increment { at, by },
            Self::Push(PushChange { at, value }) => Edit::Push { at, item: RawJson::new(&value)? },
            Self::SetEntry(SetEntryChange { at, key, value }) => {
                Edit::SetEntry { at, key, value: RawJson::new(&value)? }
            }
            Self::RemoveEntry(RemoveEntryChange { at, key }) => Edit::RemoveEntry { at, key },
        };
        Ok(DocumentChange::Edit(edit))
    }

    /// The value of the change, as it is shown.
    fn shown(&self, value: Value) -> Value {
        match self {
            Self::RemoveEntry(_) => Value::Bool(value != 0),
            Self::SetEntry(_) | Self::Patch(_) => Value::Null,
            _ => value,
        }
    }
}

impl ScopePart {
    pub(super) fn subject(&self) -> Subject {
        vec![("kind", self.kind.as_str().into()), ("id", self.id.as_str().into())]
    }

    pub(super) async fn stage(
        &self,
        served: &AppState,
        tx: &Tx,
    ) -> Result<CommitScopeDto, Problem> {
        let scope = served.tidelock().scope::<Value>(kind(&self.kind, self.ttl_ms)?, &self.id);
        let expected = self.expected.map_or(ExpectedRevision::Any, Expected::revision);
        let change = self.change.change()?;
        let value = tx.change(&scope, expected, &change).await.map_err(problems::to_problem)?;
        let value = self.change.shown(value);
        Ok(CommitScopeDto { kind: self.kind.clone(), id: self.id.clone(), value })
    }
}

/// Units to take from a quota.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuotaPart {
    /// The name: parts separated by slashes.
    #[schema(min_length = 1, example = "mails")]
    key: String,
    /// What to take.
    take: quotas::TakeRequest,
}

impl QuotaPart {
    pub(super) fn subject(&self) -> Subject {
        vec![("key", self.key.as_str().into())]
    }

    pub(super) async fn stage(&self, served: &AppState, tx: &Tx) -> Result<Value, Problem> {
        let (quota, units) = self.take.quota(&self.key, &served.tidelock().claims())?;
        let grant = tx.take(&quota, units).await?.granted()?;
        Ok(serde_json::to_value(grant).unwrap_or_default())
    }
}

/// Units to take from a rate limit.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RatePart {
    /// The name: parts separated by slashes.
    #[schema(min_length = 1, example = "partner-api")]
    key: String,
    /// What to take.
    take: rates::TakeRequest,
}

impl RatePart {
    pub(super) fn subject(&self) -> Subject {
        vec![("key", self.key.as_str().into())]
    }

    pub(super) async fn stage(&self, served: &AppState, tx: &Tx) -> Result<RateUseDto, Problem> {
        let (rate, units) = self.take.rate(&self.key, &served.tidelock().claims())?;
        Ok(tx.take_rate(&rate, units).await?.granted()?.into())
    }
}

/// A claim to complete.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompletionPart {
    /// The key.
    #[schema(min_length = 1, example = "pay:42")]
    key: String,
    /// The fence it was won with.
    #[schema(value_type = u64, minimum = 1, maximum = 9223372036854775807_i64, example = 3)]
    fence: Fence,
    /// The result for all callers.
    #[schema(value_type = Value)]
    result: RawJson,
}

impl CompletionPart {
    pub(super) fn subject(&self) -> Subject {
        vec![("key", self.key.as_str().into())]
    }

    pub(super) async fn stage(&self, served: &AppState, tx: &Tx) -> Result<(), Problem> {
        let claim = key_of(&served.tidelock().claims(), &self.key).attach(self.fence);
        Ok(tx.complete_attached(&claim, &self.result).await?)
    }

    /// Whether this is the claim of that record.
    pub(super) fn is_of(&self, claims: &Claims, record: &RecordKey) -> bool {
        let guard = key_of(claims, &self.key).attach(self.fence).guard();
        matches!(guard, Ok(Guard::Record { key, .. }) if key == *record)
    }
}

/// Items to enqueue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnqueuePart {
    /// The queue.
    #[schema(min_length = 1, max_length = 128, example = "mails")]
    queue: String,
    /// The items.
    #[schema(min_items = 1, max_items = 1000)]
    pub(super) items: Vec<EnqueueRequest>,
}

impl EnqueuePart {
    pub(super) fn stage(&self, served: &AppState, tx: &Tx) -> Result<(), Problem> {
        let queue = queue(served, &self.queue)?;
        for item in &self.items {
            tx.enqueue_item(item.item(&queue)?)?;
        }
        Ok(())
    }
}

/// Leased items to settle.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettlementPart {
    /// The queue.
    #[schema(min_length = 1, max_length = 128, example = "mails")]
    pub(super) queue: String,
    /// The items.
    #[schema(min_items = 1, max_items = 1000)]
    pub(super) items: Vec<SettleItem>,
}

impl SettlementPart {
    pub(super) async fn stage(&self, served: &AppState, tx: &Tx) -> Result<(), Problem> {
        let queue = queue(served, &self.queue)?;
        for item in &self.items {
            tx.settle(&queue, item.settlement(&queue)?).await?;
        }
        Ok(())
    }
}

/// A run to start.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunPart {
    /// Its id.
    #[schema(min_length = 1, max_length = 200, example = "order-7")]
    id: String,
    /// How to start it.
    start: StartRequest,
}

impl RunPart {
    pub(super) fn subject(&self) -> Subject {
        vec![("id", self.id.as_str().into())]
    }

    pub(super) async fn stage(&self, tx: &Tx) -> Result<(), Problem> {
        let start = tx.start(&self.start.workflow, &self.id, &self.start.input);
        self.start.options(start)?.await?;
        Ok(())
    }
}

/// A signal to send.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalPart {
    /// The run's id.
    #[schema(min_length = 1, max_length = 200, example = "order-7")]
    run: String,
    /// The signal.
    signal: SignalRequest,
}

impl SignalPart {
    pub(super) fn subject(&self) -> Subject {
        let id = self.signal.id.as_deref();
        let named = id.map(|id| ("id", Value::from(id)));
        [("run", Value::from(self.run.as_str()))].into_iter().chain(named).collect()
    }

    /// Whether another signal was sent under the id of this one, by what the store says.
    pub(super) fn is_of(&self, runs: &Runs, refused: &str) -> bool {
        let event = self.signal.id.as_ref().map(|id| runs.run(&self.run).signal_event(id));
        event.is_some_and(|event| event.is_ok_and(|event| refused.contains(&event.to_string())))
    }

    /// The refusal of an id that another signal was sent under.
    pub(super) fn reused(&self) -> Problem {
        let id = self.signal.id.clone().unwrap_or_default();
        match RunId::new(&self.run) {
            Ok(run) => Problem::from(RunError::OtherSignal { run, id }),
            Err(invalid) => RunError::from(invalid).into(),
        }
    }

    pub(super) async fn stage(&self, tx: &Tx, nth: usize) -> Result<(), Problem> {
        let asked = &self.signal;
        let signal = tx.signal(&self.run, &asked.name, &asked.payload);
        let signal = if asked.early { signal } else { signal.to_started() };
        let id = asked.id.clone().unwrap_or_else(|| format!("{}:{nth}", tx.effect_key()));
        Ok(signal.id(id).await?)
    }
}

/// What must hold, without being written: a stream or a record.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
#[schema(as = GuardPart)]
pub(crate) enum GuardPart {
    /// A stream is at this version.
    Stream(StreamGuard),
    /// A record is at this revision.
    Record(RecordGuard),
}

/// The expected version of a stream.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamGuard {
    /// The stream.
    #[schema(value_type = String, min_length = 1, max_length = 256, example = "order-7")]
    name: StreamName,
    /// The expected version.
    expected: Expected,
}

/// The expected revision of a record.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordGuard {
    /// The key.
    #[schema(value_type = String, min_length = 1, max_length = 512, example = "orders/7")]
    key: RecordKey,
    /// The expected revision.
    expected: Expected,
}

impl GuardPart {
    /// Stages the guard, and refuses one that does not hold now: the commit would be tried again.
    pub(super) async fn stage(&self, tx: &Tx) -> Result<(), Problem> {
        let (guard, unmet) = match self {
            Self::Stream(StreamGuard { name, expected }) => {
                check_is_not_reserved(name)?;
                let expected = expected.version();
                let found = tx.store().head(name).await?.state;
                let unmet = (!found.meets(expected)).then(|| {
                    let detail = format!("stream {name:?}: expected {expected}, found {found}");
                    Problem::conflict("version-conflict", detail)
                        .with("stream", name)
                        .with("expected", expected)
                        .with("found", found.version())
                });
                (Guard::Stream { stream: name.clone(), expected }, unmet)
            }
            Self::Record(RecordGuard { key, expected }) => {
                records::check_is_not_reserved(key)?;
                let expected = expected.revision();
                let found = tx.store().get_one(key).await?;
                let unmet = (!found.meets(expected)).then(|| {
                    let detail = format!("record {key:?}: expected {expected}, found {found}");
                    let revision = found.live().map(|record| record.revision);
                    Problem::conflict("revision-conflict", detail)
                        .with("key", key)
                        .with("expected", expected)
                        .with("found", revision)
                });
                (Guard::Record { key: key.clone(), expected }, unmet)
            }
        };
        match unmet {
            Some(problem) => Err(problem),
            None => Ok(tx.guard(guard)?),
        }
    }
}
