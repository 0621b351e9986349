//! An application: the reactions, jobs and workflows that a process runs, registered, built and
//! run.

use std::collections::HashSet;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::plan::check_renewal;
use tidelock_store::{LaneName, QueueName, Result, WorkerName};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::handler::{Batch, Each, Fold, Handler};
use super::leftovers::RemovingLinks;
use super::projections::{self, Rebuilding};
use super::reaction::Reaction;
use super::recent::Recent;
use super::route::Route;
use super::router::{FeedPolls, Router, Routing, register};
use super::work::ReactionWork;
use super::{BuildError, Input, ReactionCtx, ReactionName, Subscription, keys};
use crate::handle::Tidelock;
use crate::handler_error::HandlerError;
use crate::jobs::{self, JobWork};
use crate::runs::work::RunWork;
use crate::runs::{self, Definition};
use crate::worker::{PollInterval, QueueOptions, Stopped, Worker, WorkerOptions};

/// The lease on a route: how long the others wait before they take over from a process that died.
const ROUTE_LEASE: Duration = Duration::from_secs(15);

/// How often the feed is polled without a hint.
const FEED_POLL: Duration = Duration::from_secs(1);

/// How often everything is polled without a hint in simulated time, and the lease on routes there.
const SIMULATED_POLL: Duration = Duration::from_secs(3600);

/// How long a pass over the targets of one reaction may take; what it has removed stays removed.
const LINK_REMOVAL_TIMEOUT: Duration = Duration::from_secs(3600);

/// Collects what a process runs.
#[derive(Debug)]
pub struct AppBuilder {
    tidelock: Tidelock,
    reactions: Vec<Result<Reaction, BuildError>>,
    pub(crate) workflows: Vec<Definition>,
    pub(crate) jobs: Vec<jobs::Definition>,
    options: WorkerOptions,
    lanes: Vec<Result<LaneName, BuildError>>,
    route_lease: Duration,
    feed_poll: Duration,
    error_pause: Option<Duration>,
}

/// What a process runs.
#[derive(Debug)]
pub struct App {
    tidelock: Tidelock,
    reactions: Vec<Arc<Reaction>>,
    workflows: Vec<Arc<Definition>>,
    jobs: Vec<Arc<jobs::Definition>>,
    options: WorkerOptions,
    lanes: Vec<LaneName>,
    route_lease: Duration,
    feed_poll: Duration,
    error_pause: Option<Duration>,
}

impl AppBuilder {
    pub(crate) fn new(tidelock: Tidelock) -> Self {
        Self {
            tidelock,
            reactions: Vec::new(),
            workflows: Vec::new(),
            jobs: Vec::new(),
            options: WorkerOptions::new(own_name()),
            lanes: Vec::new(),
            route_lease: ROUTE_LEASE,
            feed_poll: FEED_POLL,
            error_pause: None,
        }
    }

    /// Registers a reaction: a handler that is called with one event at a time.
    ///
    /// The handler may run more than once for an event, if its process dies or its lease is lost
    /// before the ack; what it stages in its context lands exactly once.
    ///
    /// # Examples
    /// ```
    /// use tidelock::prelude::*;
    ///
    /// #[derive(Debug, Event)]
    /// struct Placed { cents: i64 }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tidelock = Tidelock::open("memory:").await?;
    /// let invoice = |order: Recorded<Placed>, ctx: ReactionCtx| async move {
    ///     Ok(ctx.put(format!("invoice/{}", order.stream), &order.event.cents)?)
    /// };
    /// let app = tidelock.app().reaction("invoice", on::<Placed>(), invoice).build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn reaction<I, F, R>(
        self,
        name: impl AsRef<str>,
        source: Subscription<I>,
        handler: F,
    ) -> Self
    where
        I: Input,
        F: Fn(I, ReactionCtx) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.with(name.as_ref(), source, Each::new(handler))
    }

    /// Registers a reaction whose handler is called with batches of one target's events: oldest
    /// first, at most this many.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let count = async |events: Vec<_>, ctx: ReactionCtx| {
    ///     Ok(ctx.add("audit/events", events.len() as i64, ..)?)
    /// };
    /// let app = tidelock.app().batch_reaction("audit", on_any(), 100, count).build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn batch_reaction<I, F, R>(
        self,
        name: impl AsRef<str>,
        source: Subscription<I>,
        most: usize,
        handler: F,
    ) -> Self
    where
        I: Input,
        F: Fn(Vec<I>, ReactionCtx) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.with(name.as_ref(), source, Batch::new(most, handler))
    }

    /// Registers a projection: the events of each target are folded into one row, which is written
    /// with the ack. Read it with [`Reactions::row`](super::Reactions::row).
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// #[derive(Debug, Event)]
    /// struct Sold { tea: String, units: i64 }
    ///
    /// let sales = on::<Sold>().to(|sold| sold.event.tea.clone());
    /// let app = tidelock
    ///     .app()
    ///     .projection("sales", sales, |units: &mut i64, sold: Recorded<Sold>| *units += sold.event.units)
    ///     .build()?;
    /// // While it runs, somewhere: the row of a target.
    /// let assam: Option<i64> = tidelock.reactions().row("sales", "assam").await?;
    /// assert_eq!(assam, None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn projection<I, S>(
        self,
        name: impl AsRef<str>,
        source: Subscription<I>,
        fold: impl Fn(&mut S, I) + Send + Sync + 'static,
    ) -> Self
    where
        I: Input,
        S: Default + Serialize + DeserializeOwned + Send + 'static,
    {
        self.with(name.as_ref(), source, Fold::<I, S, _>::new(fold))
    }

    /// Sets the lanes that are served. By default all are served.
    #[must_use]
    pub fn lanes<'a>(mut self, lanes: impl IntoIterator<Item = &'a str>) -> Self {
        let check = |lane: &str| {
            LaneName::new(lane).map_err(|e| setting(format!("lane {lane}"), e.context()))
        };
        self.lanes.extend(lanes.into_iter().map(check));
        self
    }

    /// Sets the maximum number of targets processed concurrently, over all reactions and runs. The
    /// default is 64.
    #[must_use]
    pub fn max_concurrency(mut self, targets: usize) -> Self {
        self.options.max_concurrency = targets;
        self
    }

    /// Sets the options of the worker.
    #[must_use]
    pub fn worker(mut self, options: WorkerOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the lease of the router: after this long, another process takes over from one that
    /// died. The default is 15 seconds.
    #[must_use]
    pub fn route_lease(mut self, lease: Duration) -> Self {
        self.route_lease = lease;
        self
    }

    /// For tests: polls and renews rarely, because hints of a store in memory are never lost, and
    /// days of simulated time would otherwise be mostly polls. A call that failed is repeated as
    /// soon as ever.
    pub(crate) fn for_simulated_time(mut self) -> Self {
        self.options.poll_interval =
            PollInterval { least: SIMULATED_POLL, per_queue: Duration::ZERO };
        (self.feed_poll, self.route_lease) = (SIMULATED_POLL, SIMULATED_POLL);
        self.error_pause = Some(FEED_POLL);
        self
    }

    /// Validates the names and options.
    ///
    /// # Errors
    /// The first invalid one.
    pub fn build(self) -> Result<App, BuildError> {
        let reactions: Vec<Reaction> = self.reactions.into_iter().collect::<Result<_, _>>()?;
        let mut names = HashSet::new();
        if let Some(twice) = reactions.iter().find(|reaction| !names.insert(reaction.name.clone()))
        {
            return Err(BuildError::Twice { name: twice.name.to_string() });
        }
        check_workflows(&self.workflows)?;
        check_jobs(&self.jobs)?;
        reactions.iter().try_for_each(check_reaction)?;
        check_lease(self.route_lease).map_err(|problem| setting("the lease on routes", problem))?;
        if self.options.max_concurrency == 0 {
            return Err(setting("the worker", "a concurrency of 0; it needs at least 1"));
        }
        for workflow in &self.workflows {
            self.tidelock.workflows().learn(workflow);
        }
        Ok(App {
            tidelock: self.tidelock,
            workflows: self.workflows.into_iter().map(Arc::new).collect(),
            jobs: self.jobs.into_iter().map(Arc::new).collect(),
            reactions: reactions.into_iter().map(Arc::new).collect(),
            options: self.options,
            lanes: self.lanes.into_iter().collect::<Result<_, _>>()?,
            route_lease: self.route_lease,
            feed_poll: self.feed_poll,
            error_pause: self.error_pause,
        })
    }

    fn with<I>(mut self, name: &str, source: Subscription<I>, handler: impl Handler) -> Self {
        self.reactions.push(reaction(name, source, handler));
        self
    }
}

fn reaction<I>(
    name: &str,
    source: Subscription<I>,
    handler: impl Handler,
) -> Result<Reaction, BuildError> {
    let name = ReactionName::new(name)?;
    if let Some(problem) = source.problem {
        return Err(BuildError::Option { name: name.to_string(), problem });
    }
    Ok(Reaction {
        queue: keys::queue(&name),
        name,
        types: source.types,
        streams: source.streams,
        route: source.route,
        handler: Arc::new(handler),
        options: source.options,
    })
}

/// A lease that a store grants, and at least one at a time.
fn check_reaction(reaction: &Reaction) -> Result<(), BuildError> {
    let options = &reaction.options;
    let problem = match check_lease(options.lease) {
        Err(problem) => problem,
        Ok(()) if options.limit == Some(0) => {
            "at most 0 targets at once; it needs at least 1".to_owned()
        }
        Ok(()) if reaction.handler.batch() == 0 => {
            "batches of 0 events; they have at least 1".to_owned()
        }
        Ok(()) => return Ok(()),
    };
    Err(BuildError::Option { name: reaction.name.to_string(), problem })
}

fn check_lease(lease: Duration) -> Result<(), String> {
    check_renewal(&[], lease).map_err(|e| e.context().to_owned())
}

fn setting(of: impl Into<String>, problem: impl Into<String>) -> BuildError {
    BuildError::Setting { of: of.into(), problem: problem.into() }
}

/// Each version of a workflow once, under a name that can be one, with a lease that a store grants.
fn check_workflows(workflows: &[Definition]) -> Result<(), BuildError> {
    let mut known = HashSet::new();
    for workflow in workflows {
        let name = workflow.checked_name().map_err(BuildError::Workflow)?;
        let settings = &workflow.settings;
        if !known.insert((name.clone(), settings.version)) {
            return Err(BuildError::TwiceAWorkflow {
                name: name.to_string(),
                version: settings.version.0,
            });
        }
        let of = || format!("workflow {:?}", name.as_str());
        check_lease(settings.lease).map_err(|problem| setting(of(), problem))?;
        if let Some(problem) = settings.problem() {
            return Err(setting(of(), problem));
        }
        workflow.global_limit().map_err(|e| setting(of(), e.context()))?;
    }
    Ok(())
}

/// One type for each queue, under a name that a user's queue can have, with a lease that a store
/// grants.
fn check_jobs(jobs: &[jobs::Definition]) -> Result<(), BuildError> {
    let mut known = HashSet::new();
    for job in jobs {
        let of = format!("jobs of queue {:?}", job.name());
        if let Some(problem) = job.problem() {
            return Err(setting(of, problem));
        }
        if !known.insert(job.name()) {
            return Err(setting(
                of,
                "two types of jobs are registered for it; give each its own queue",
            ));
        }
        check_lease(job.options.lease_duration()).map_err(|problem| setting(of, problem))?;
    }
    Ok(())
}

/// A name that tells processes apart, for people.
fn own_name() -> WorkerName {
    let name = format!("process-{}-{:04x}", std::process::id(), fastrand::u16(..));
    WorkerName::new(name).expect("it is short and plain")
}

impl App {
    /// Runs until `shutdown` is ready, and then until the work in flight has ended, or the worker's
    /// [shutdown timeout](WorkerOptions::shutdown_timeout) has.
    ///
    /// When this future is dropped or aborted, the application stops at once, as if its process had
    /// died: handlers and runs are dropped at their next await, and nothing more is leased,
    /// renewed, routed or written. Their leases are neither acked nor released: they expire, and
    /// another process, or the next application, continues.
    ///
    /// # Errors
    /// If the reactions cannot be registered with the store. Later failures of the store are logged
    /// and retried.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tidelock::prelude::*;
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// # let interrupted = std::future::ready(()); // in a program: tokio::signal::ctrl_c()
    /// let app = tidelock.app().build()?;
    /// let stopped = app.run_until(interrupted).await?;
    /// # drop(stopped);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<Stopped> {
        for reaction in &self.reactions {
            register(self.tidelock.store(), reaction).await?;
            if reaction.handler.projection().is_some() {
                projections::register(self.tidelock.store(), &reaction.name).await?;
            }
        }
        for workflow in &self.workflows {
            workflow.registered().announce(&**self.tidelock.store(), workflow.known_name()).await?;
        }
        let recent = Arc::new(Recent::default());
        let router = Arc::new(Router::new(self.tidelock.store(), &recent, self.polls()));
        let stopping = CancellationToken::new();
        let routing = AbortOnDropHandle::new(tokio::spawn(router.clone().run(stopping.clone())));
        let worker = self.worker(&router, &recent);
        let stopped = worker.run_until(shutdown).await;
        stopping.cancel();
        let _ended = routing.await;
        stopped
    }

    /// Runs for as long as the process does, or until this future is dropped: see
    /// [`run_until`](Self::run_until).
    ///
    /// # Errors
    /// As [`run_until`](Self::run_until).
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let app = tidelock.app().reaction("log", on_any(), async |event, _ctx| {
    ///     println!("{}", event.event_type);
    ///     Ok(())
    /// });
    /// let app = app.build()?;
    /// tokio::select! {
    ///     stopped = app.run() => drop(stopped?),
    ///     () = async { /* what else the process does */ } => {}
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run(self) -> Result<Stopped> {
        self.run_until(pending()).await
    }

    fn polls(&self) -> FeedPolls {
        FeedPolls { idle: self.feed_poll, failed: self.error_pause.unwrap_or(self.feed_poll) }
    }

    /// The reactions that it runs.
    pub(crate) fn reactions(&self) -> &[Arc<Reaction>] {
        &self.reactions
    }

    /// The queues that it serves, except those of routes, whose items are always held.
    pub(crate) fn queues(&self) -> Vec<QueueName> {
        let recent = Arc::new(Recent::default());
        let router = Arc::new(Router::new(self.tidelock.store(), &recent, self.polls()));
        let mut queues = self.worker(&router, &recent).queues();
        queues.retain(|queue| keys::routed_reaction(queue.as_str()).is_none());
        queues
    }

    fn worker(&self, router: &Arc<Router>, recent: &Arc<Recent>) -> Worker {
        let worker = Worker::new(self.tidelock.store().clone(), self.options.clone())
            .sharing(self.tidelock.known_pauses())
            .error_pause(self.error_pause);
        let runs = self.workflows.iter().map(|workflow| RunWork::served(&self.tidelock, workflow));
        let worker = runs.flat_map(|served| self.in_lanes(&served)).fold(worker, Worker::serve);
        let jobs = self.jobs.iter().map(|job| JobWork::served(&self.tidelock, job));
        let worker = jobs.flat_map(|served| self.in_lanes(&served)).fold(worker, Worker::serve);
        let callers = self.jobs.iter().filter_map(|job| JobWork::callers(job));
        let worker = callers.fold(worker, Worker::serve);
        let has_schedules = !self.workflows.is_empty() || !self.jobs.is_empty();
        let housekeeping = has_schedules.then(|| runs::housekeeping(&self.tidelock));
        let worker = housekeeping.into_iter().flatten().fold(worker, Worker::serve);
        let worker = self.link_removals().into_iter().fold(worker, Worker::serve);
        let worker = self.rebuilds().into_iter().fold(worker, Worker::serve);
        self.reactions.iter().fold(worker, |worker, reaction| {
            let targets = self.targets(reaction, recent);
            let worker = targets.into_iter().fold(worker, Worker::serve);
            worker.serve(self.route(reaction, router))
        })
    }

    /// Served by processes that have links. That a holder died over one of its items says nothing
    /// about the next.
    fn link_removals(&self) -> Option<QueueOptions> {
        let computed =
            self.reactions.iter().any(|reaction| matches!(reaction.route, Route::Computed(_)));
        let served = QueueOptions::new(&keys::link_removals(), Arc::new(RemovingLinks));
        computed.then(|| served.max_crashes(u32::MAX).timeout(LINK_REMOVAL_TIMEOUT))
    }

    /// Served by processes that have projections. A rebuild takes as long as it takes, and that its
    /// holder died says nothing about it.
    fn rebuilds(&self) -> Option<QueueOptions> {
        let projects = self.reactions.iter().any(|it| it.handler.projection().is_some());
        let served = QueueOptions::new(&keys::projection_rebuilds(), Arc::new(Rebuilding));
        let served = served.lease(self.route_lease).max_crashes(u32::MAX);
        projects.then_some(served.outside_the_pool().minding_its_time())
    }

    fn targets(&self, reaction: &Arc<Reaction>, recent: &Arc<Recent>) -> Vec<QueueOptions> {
        let options = &reaction.options;
        let work = Arc::new(ReactionWork::new(&self.tidelock, reaction, recent));
        let served = QueueOptions::new(&reaction.queue, work)
            .lease(options.lease)
            .max_crashes(options.expiries);
        let served = served.timeout(options.timeout).minding_its_time();
        let served = options.limit.map_or(served.clone(), |limit| served.max_concurrency(limit));
        self.in_lanes(&served)
    }

    fn in_lanes(&self, served: &QueueOptions) -> Vec<QueueOptions> {
        match self.lanes.is_empty() {
            true => vec![served.clone()],
            false => self.lanes.iter().map(|lane| served.clone().in_lane(lane.clone())).collect(),
        }
    }

    /// Held for as long as the process lives; that earlier holders died says nothing about the next
    /// one.
    fn route(&self, reaction: &Arc<Reaction>, router: &Arc<Router>) -> QueueOptions {
        let work = Arc::new(Routing { router: router.clone(), reaction: reaction.clone() });
        let served = QueueOptions::new(&keys::route_queue(&reaction.name), work);
        let served = served.lease(self.route_lease).max_crashes(u32::MAX).max_concurrency(1);
        served.outside_the_pool().minding_its_time()
    }
}
