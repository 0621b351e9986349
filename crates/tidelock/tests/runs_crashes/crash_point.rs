//! Crash points, and the store that triggers them.
//!
//! A process dies by SIGKILL to itself: nothing is closed, released or written any more.

use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::signal::{Signal, raise};
use tidelock::store::{Result, Store, StoreOperation};
use tidelock_test_stage::{Interceptor, Wrapped};

/// On which side of a call it dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The call has no effect.
    Before,
    /// The call takes effect, and the reply is lost.
    After,
}

/// A crash point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CrashPoint {
    /// At the nth call to the store.
    Call(Side, u64),
    /// At the effect of this step.
    Effect(Side, String),
}

impl CrashPoint {
    /// Dies here, if this is the crash point.
    pub(crate) fn at_effect(&self, side: Side, step: &str) {
        die_if(matches!(self, Self::Effect(own, name) if *own == side && name == step));
    }

    fn at_call(&self, side: Side, nth: u64) {
        die_if(*self == Self::Call(side, nth));
    }
}

fn die_if(here: bool) {
    if here {
        raise(Signal::SIGKILL).unwrap();
    }
}

/// Such as `before-call-7` and `after-effect-charge`: also a unique name for the run.
impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |side: &Side| if *side == Side::Before { "before" } else { "after" };
        match self {
            Self::Call(at, nth) => write!(f, "{}-call-{nth}", side(at)),
            Self::Effect(at, step) => write!(f, "{}-effect-{step}", side(at)),
        }
    }
}

impl FromStr for CrashPoint {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let unknown = || format!("{text:?} is no place to die");
        let mut words = text.splitn(3, '-');
        let side = match words.next() {
            Some("before") => Side::Before,
            Some("after") => Side::After,
            _ => return Err(unknown()),
        };
        match (words.next(), words.next()) {
            (Some("call"), Some(nth)) => Ok(Self::Call(side, nth.parse().map_err(|_| unknown())?)),
            (Some("effect"), Some(step)) => Ok(Self::Effect(side, step.into())),
            _ => Err(unknown()),
        }
    }
}

/// In front of the store of a process that is to die.
#[derive(Debug)]
pub(crate) struct CrashingStore {
    doom: CrashPoint,
    calls: AtomicU64,
}

impl CrashingStore {
    pub(crate) fn over(store: Arc<dyn Store>, doom: CrashPoint) -> Arc<Wrapped<Self>> {
        Wrapped::new(store, Self { doom, calls: AtomicU64::new(0) })
    }
}

impl Interceptor for CrashingStore {
    /// Polling and renewing are driven by the clock, not by the run: a crash there is one between
    /// the counted calls.
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if matches!(operation, StoreOperation::Lease | StoreOperation::Renew) {
            return call.await;
        }
        let nth = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        self.doom.at_call(Side::Before, nth);
        let answer = call.await;
        self.doom.at_call(Side::After, nth);
        answer
    }
}

#[test]
fn a_doom_survives_its_name() {
    for doom in
        [CrashPoint::Call(Side::Before, 7), CrashPoint::Effect(Side::After, "charge".into())]
    {
        assert_eq!(doom.to_string().parse(), Ok(doom));
    }
}
