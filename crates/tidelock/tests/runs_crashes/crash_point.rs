//! Where a process is to die, and the store that sees to it.
//!
//! A process dies by SIGKILL to itself: nothing of it is closed, given back or written any more.

use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::signal::{Signal, raise};
use tidelock::prelude::*;
use tidelock::{Result, StoreOperation};
use tidelock_test_stage::{Interceptor, Wrapped};

/// On which side of something it dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// It does not happen.
    Before,
    /// It has happened, and nobody hears of it.
    After,
}

/// Where it dies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Doom {
    /// At its nth call on the store.
    Call(Side, u64),
    /// At the effect of this step.
    Effect(Side, String),
}

impl Doom {
    /// Dies here, if this is where.
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

/// Such as `before-call-7` and `after-effect-charge`: also a good name for whatever belongs to it.
impl fmt::Display for Doom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |side: &Side| if *side == Side::Before { "before" } else { "after" };
        match self {
            Self::Call(at, nth) => write!(f, "{}-call-{nth}", side(at)),
            Self::Effect(at, step) => write!(f, "{}-effect-{step}", side(at)),
        }
    }
}

impl FromStr for Doom {
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

/// Stands before the store of a process that is to die.
#[derive(Debug)]
pub(crate) struct Deadly {
    doom: Doom,
    calls: AtomicU64,
}

impl Deadly {
    pub(crate) fn over(store: Arc<dyn Store>, doom: Doom) -> Arc<Wrapped<Self>> {
        Wrapped::new(store, Self { doom, calls: AtomicU64::new(0) })
    }
}

impl Interceptor for Deadly {
    /// Looking for work and renewing happen when the clock says so, and not when the run does: a
    /// death there is one between the calls that are counted.
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
    for doom in [Doom::Call(Side::Before, 7), Doom::Effect(Side::After, "charge".into())] {
        assert_eq!(doom.to_string().parse(), Ok(doom));
    }
}
