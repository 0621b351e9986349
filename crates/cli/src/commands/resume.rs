//! `tidelock resume`: resumes a parked run at once.

use tidelock::Tidelock;

use super::runs::tell;
use crate::args::ResumeArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::store_url::StoreUrl;

pub(crate) async fn run(
    args: ResumeArgs,
    store_url: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let store = store_url.open().await?.store;
    let now = store.now().await?;
    let run = Tidelock::over(store).runs().run(&args.run);
    let status = run.resume().await?;
    tell(&run.get().await?, &status, now, out)
}
