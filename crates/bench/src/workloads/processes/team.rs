//! A side of concurrent processes.

use std::time::Duration;

use tidelock::store::async_trait;
use tokio::task::block_in_place;

use super::member::{Done, micros};
use crate::child::Child;
use crate::failure::Failure;
use crate::measure::{Side, Slice};

pub(crate) struct Team(Vec<Child>);

impl Team {
    /// This many processes with this many callers each; the streams are numbered from `first` on.
    pub(crate) fn start(
        url: &str,
        processes: usize,
        callers: usize,
        first: usize,
    ) -> Result<Self, Failure> {
        let start = |process: usize| {
            let first = (first + process * callers).to_string();
            let args = ["team-member", "--first", &first, "--callers", &callers.to_string()]
                .map(str::to_owned);
            Child::start(&args, url)
        };
        block_in_place(|| (0..processes).map(start).collect::<Result<_, _>>()).map(Self)
    }

    fn work(&mut self, slice: Duration) -> Result<Vec<Done>, Failure> {
        let slice = micros(slice).to_string();
        self.0.iter_mut().try_for_each(|child| child.tell(&slice))?;
        self.0.iter_mut().map(done).collect()
    }
}

#[async_trait]
impl Side for Team {
    /// The time is from the first start to the last end.
    async fn run_slice(&mut self, slice: Duration) -> Result<Slice, Failure> {
        let done = block_in_place(|| self.work(slice))?;
        Ok(Slice::all_of(done))
    }
}

fn done(child: &mut Child) -> Result<Done, Failure> {
    let line = child.hear()?;
    serde_json::from_str(&line)
        .map_err(|_| Failure::Answer(format!("a process ended in the middle: {line:?}")))
}
