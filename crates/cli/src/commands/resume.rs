//! `tidelock resume`: resumes a parked run at once.

use tidelock::Tidelock;

use super::Cx;
use super::runs::tell;
use crate::args::ResumeArgs;
use crate::failure::Result;

pub(crate) async fn run(args: ResumeArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let store = store_url.open().await?.store;
    let now = store.now().await?;
    let run = Tidelock::over(store).runs().run(&args.run);
    let status = run.resume().await?;
    tell(&run.get().await?, &status, now, out)
}
