//! An import: everything moves to another store, by the command's own export and import, while no
//! process runs. The importer may die at any call, and is started again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidelock_cli::{export, import};
use tokio::time::sleep;

use super::audit;
use super::process::{Process, Supervisor};
use super::world::World;

/// Attempts of an import, each of which continues the one before.
const ATTEMPTS: u64 = 400;

/// Moves everything. The processes start again on the other store.
pub(crate) async fn migrate(world: &Arc<World>, supervisors: &[Arc<Supervisor>]) {
    world.is_moving.store(true, Ordering::Relaxed);
    for supervisor in supervisors {
        supervisor.current().iter().for_each(Process::die);
    }
    let folder = tempfile::tempdir().expect("the machine has a folder for temporary files");
    let (file, from) = (folder.path().join("export"), world.place());
    // A commit that was on its way when its process died may still land.
    loop {
        sleep(Duration::from_secs(10)).await;
        match export(&from.base, &file).await {
            Ok(true) => break,
            Ok(false) => {}
            Err(error) => return world.problem(format!("an export failed: {error}")),
        }
    }
    audit::judge_era(world).await;
    world.begin_era().await;
    for attempt in 0..ATTEMPTS {
        let importer = Process::new(world, 97, attempt, 2);
        let tidelock = importer.tidelock();
        let imported = tokio::select! {
            biased;
            () = importer.died() => None,
            imported = import(&file, tidelock.store()) => Some(imported),
        };
        importer.die();
        match imported {
            Some(Ok(())) => {
                world.sometimes("store is imported");
                world.is_moving.store(false, Ordering::Relaxed);
                return;
            }
            Some(Err(error)) if attempt + 1 == ATTEMPTS => {
                world.problem(format!("an import failed {ATTEMPTS} times: {error}"));
            }
            Some(Err(_)) | None => world.sometimes("import is interrupted"),
        }
        sleep(Duration::from_secs(1)).await;
    }
}
