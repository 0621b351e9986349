//! `tidelock resume`: resumes a parked run at once, or what was paused.

use tidelock::Tidelock;

use super::runs::tell;
use super::{Cx, pause};
use crate::args::ResumeArgs;
use crate::failure::{Failure, Result};

pub(crate) async fn run(args: ResumeArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let store = store_url.open().await?.store;
    let now = store.now().await?;
    let tidelock = Tidelock::over(store);
    match (args.run, args.subject) {
        (Some(run), None) => {
            let run = tidelock.runs().run(&run);
            let status = run.resume().await?;
            tell(&run.get().await?, &status, now, out)
        }
        (None, Some(subject)) => {
            Ok(out.done("resumed", &pause::resume(subject, &tidelock).await?)?)
        }
        _ => Err(Failure::usage(
            "give a run, or one of --queue, --reaction and --workflow".to_owned(),
            "tidelock pause, to see what is paused",
        )),
    }
}
