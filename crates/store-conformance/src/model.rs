//! Model-based tests: random histories against a simple model of the contract, and on two stores at
//! once.
//!
//! A history is a list of abstract steps, drawn by proptest and shrunk when it fails. Each step
//! becomes a call on the store, and every returned value is compared: with the answer of the
//! reference in `model/reference.rs`, which was written from the text of docs/guarantees.md and
//! knows nothing of how stores work; or with another store's answer.
//!
//! A run counts what happened in it and fails when too little did. It is replayed with
//! `TIDELOCK_SEED`, and made longer with `TIDELOCK_MODEL_CASES`.

mod call;
mod past;
mod player;
mod reference;
mod step;
mod tally;

use std::cell::RefCell;
use std::env;
use std::fmt::Display;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::case::{Subject, runtime};
use call::{Answer, Call};
use past::Past;
use player::Player;
use reference::Reference;
use step::Step;
use tally::Tally;

/// How many histories to try, and from which seed.
#[derive(Debug, Clone, Copy)]
pub struct Runs {
    cases: u32,
    seed: u64,
}

impl Runs {
    /// This many histories, from a new seed each time. `TIDELOCK_MODEL_CASES` and `TIDELOCK_SEED`
    /// override both.
    pub fn new(cases: u32) -> Self {
        let seed = variable("TIDELOCK_SEED").unwrap_or_else(|| RandomState::new().hash_one(cases));
        Self { cases: variable("TIDELOCK_MODEL_CASES").unwrap_or(cases), seed }
    }

    fn runner(self) -> TestRunner {
        // The failure is in the message; files of old seeds would outlive the steps from which they
        // were drawn.
        let config = Config {
            cases: self.cases,
            failure_persistence: None,
            max_shrink_iters: 2_000,
            ..Config::default()
        };
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
    }
}

fn variable<T: std::str::FromStr<Err: Display>>(name: &str) -> Option<T> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|e| panic!("{name}={text:?} is not a number: {e}")))
}

/// Runs random histories, each on a new store, and compares every answer with the model's.
///
/// # Panics
/// If an answer differs, with the shortest history found that shows it; or if too little happened.
pub fn check_model<S, F>(make: impl Fn() -> F, runs: Runs)
where
    S: Subject,
    F: Future<Output = S>,
{
    check(runs, &async |steps| match_model(&make().await, steps).await);
}

/// Runs the same random histories on two stores and compares every answer, times included: both
/// clocks must begin at the same moment.
///
/// # Panics
/// As [`check_model`] does.
pub fn check_differential<A, B, F, G>(one: impl Fn() -> F, other: impl Fn() -> G, runs: Runs)
where
    A: Subject,
    B: Subject,
    F: Future<Output = A>,
    G: Future<Output = B>,
{
    check(runs, &async |steps| differential(&one().await, &other().await, steps).await);
}

fn check(runs: Runs, run: &impl AsyncFn(&[Step]) -> Result<Tally, String>) {
    let (runtime, total) = (runtime(), RefCell::new(Tally::default()));
    let result = runs.runner().run(&step::history(), |steps| {
        let tally = runtime.block_on(run(&steps)).map_err(TestCaseError::fail)?;
        total.borrow_mut().add(&tally);
        Ok(())
    });
    let replay =
        format!("replay with TIDELOCK_SEED={} TIDELOCK_MODEL_CASES={}", runs.seed, runs.cases);
    match result {
        Ok(()) => {
            total.into_inner().check_floors(runs.cases).unwrap_or_else(|e| panic!("{e}\n{replay}"));
        }
        Err(TestError::Fail(reason, steps)) => {
            let steps: String = steps.iter().map(|step| format!("  {step:?}\n")).collect();
            panic!("{reason}\n{replay}\nthe shortest history found:\n{steps}")
        }
        Err(TestError::Abort(reason)) => panic!("{reason}\n{replay}"),
    }
}

async fn match_model(subject: &dyn Subject, steps: &[Step]) -> Result<Tally, String> {
    let mut player = Player::new(subject).await;
    let mut reference = Reference::at(player.now().await);
    let mut story = Story::default();
    for step in steps {
        let call = story.past.resolve(step);
        let expected = reference.answer(&call);
        let found = player.play(&call).await.map_err(|e| story.told(&call, &e))?;
        story.compare(call, &expected, &found, "the model")?;
    }
    Ok(story.tally)
}

/// Runs the same history on two stores and compares every answer.
async fn differential(
    one: &dyn Subject,
    other: &dyn Subject,
    steps: &[Step],
) -> Result<Tally, String> {
    let (mut first, mut second) = (Player::new(one).await, Player::new(other).await);
    let mut story = Story::default();
    for step in steps {
        let call = story.past.resolve(step);
        let expected = first.play(&call).await.map_err(|e| story.told(&call, &e))?;
        let found = second.play(&call).await.map_err(|e| story.told(&call, &e))?;
        story.compare(call, &expected, &found, "the first store")?;
    }
    Ok(story.tally)
}

/// What happened so far.
#[derive(Default)]
struct Story {
    past: Past,
    calls: Vec<Call>,
    tally: Tally,
}

impl Story {
    fn compare(
        &mut self,
        call: Call,
        expected: &Answer,
        found: &Answer,
        whose: &str,
    ) -> Result<(), String> {
        if expected != found {
            let answers = format!("{whose} says {expected:#?}\nthe store says {found:#?}");
            return Err(self.told(&call, &answers));
        }
        self.tally.count(&call, found, &self.past);
        self.past.note(&call, found);
        self.calls.push(call);
        Ok(())
    }

    /// The failure of a call, with all the calls that led to it.
    fn told(&self, call: &Call, failure: &str) -> String {
        let earlier: String = self.calls.iter().map(|call| format!("  {call:?}\n")).collect();
        format!("after\n{earlier}came\n  {call:?}\n{failure}")
    }
}
