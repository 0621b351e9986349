//! `tidelock resume`: a parked run goes on at once.

use tidelock::Tidelock;

use super::runs::tell;
use crate::args::ResumeArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::StoreUrl;

pub(crate) async fn run(
    args: ResumeArgs,
    place: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let store = place.open().await?.store;
    let now = store.now().await?;
    let run = Tidelock::over(store).runs().run(&args.run);
    let standing = run.resume().await?;
    tell(&run.get().await?, &standing, now, out)
}
