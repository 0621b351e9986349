//! Tests of your own code: an application on a store in memory with simulated time, injected
//! failures, and recorded histories replayed against changed code.
//!
//! - [`given`] tests a decision: given events, when decided, then events.
//! - [`TestApp`] runs an application: [`run_until_idle`](TestApp::run_until_idle),
//!   [`advance`](TestApp::advance), then assert [events](TestApp::events), [jobs](TestApp::jobs),
//!   [queues](TestApp::queue) and [runs](TestApp::run).
//! - [`Faults`] lets the nth call of the store fail, or ends the application there.
//! - [`replay`] checks whether a recorded history still fits a workflow's code.
//!
//! Everything here is for tests: what does not hold panics, with the line of the test. Nothing
//! waits in real time.

mod app;
mod busy;
mod compare;
mod events;
mod faults;
mod given;
mod jobs;
mod queue;
mod replay;
mod run;
mod runtime_clock;
mod supervisor;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

pub use app::TestApp;
pub use events::TestEvents;
pub use faults::{Fault, Faults};
pub use given::{Given, GivenWhen, given, given_nothing};
pub use jobs::TestJobs;
pub use queue::TestQueue;
pub use replay::{AfterReplay, Misfit, ReplayError, replay};
pub use run::TestRun;

/// Polls a future to completion. A store in memory is ready at once, or at a later poll.
fn finish<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
    }
}
