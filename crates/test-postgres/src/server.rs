//! A private PostgreSQL server.
//!
//! `Server` delegates: to [`Postmaster`] for the process, to `psql` for SQL, and to the
//! [`Guardian`] for the cleanup. How a server is created or copied from another is in `server/`.

mod make;
mod sql;

pub(crate) use sql::converse;

use std::path::Path;

use parking_lot::{Mutex, MutexGuard};

use crate::failure::Failure;
use crate::folder::{Folder, Medium};
use crate::guardian::Guardian;
use crate::polling::wait_for;
use crate::port::free_port;
use crate::postmaster::{Postmaster, Stop};
use crate::programs::Programs;
use crate::shared::SHARED_SETTINGS;

/// A server on its own port, stopped and removed with its folder when dropped, or when this process
/// ends in any way.
#[derive(Debug)]
pub struct Server {
    // Dropped first: it stops the server, and then the postmaster is reaped.
    _guardian: Guardian,
    postmaster: Mutex<Option<Postmaster>>,
    programs: Programs,
    folder: Folder,
    port: u16,
}

impl Server {
    /// Starts a new, empty server, with `fsync` on, that trusts every local connection.
    pub fn start() -> Result<Self, Failure> {
        Self::start_with(&[])
    }

    /// Starts a new, empty server with settings of `postgresql.conf` beside or instead of the usual
    /// ones.
    pub fn start_with(settings: &[(&str, &str)]) -> Result<Self, Failure> {
        Self::start_on(Medium::Disk, settings)
    }

    /// Starts a new, empty server for many tests, whose files are in memory if there is room.
    pub fn start_shared() -> Result<Self, Failure> {
        Self::start_on(Medium::Memory, &SHARED_SETTINGS)
    }

    fn start_on(medium: Medium, settings: &[(&str, &str)]) -> Result<Self, Failure> {
        let server = Self::stopped(medium)?;
        make::fresh(&server.programs, &server.folder, settings)?;
        server.start_again()?;
        Ok(server)
    }

    /// Starts a copy of this server that follows it by streaming replication under this
    /// `application_name`, and answers reads.
    ///
    /// Behavior: it has the settings of this server, except `synchronous_standby_names`: once
    /// promoted, it waits for no standby until it is told to. Whether this server waits for the
    /// standby depends on this server's settings.
    pub fn standby(&self, name: &str) -> Result<Self, Failure> {
        let standby = Self::stopped(Medium::Disk)?;
        make::copy_of(self, &standby.programs, &standby.folder, name)?;
        standby.start_again()?;
        Ok(standby)
    }

    /// The port on 127.0.0.1, constant for the life of the server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of the superuser and its database.
    pub fn url(&self) -> String {
        self.url_of("postgres", "postgres")
    }

    /// The URL of some user and database.
    pub fn url_of(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.port)
    }

    /// The folder of the server's socket.
    pub fn socket_folder(&self) -> &Path {
        self.folder.sockets()
    }

    /// The folder of the server's data.
    pub fn data_folder(&self) -> &Path {
        self.folder.data()
    }

    /// Stops the server and waits until it has ended, for at most a minute or two. A server that is
    /// not running stays so.
    pub fn stop(&self, how: Stop) -> Result<(), Failure> {
        self.end(|postmaster| postmaster.stop(how))
    }

    /// Kills the postmaster and all of its processes, as a power cut would. What the server gave to
    /// the kernel stays, even without `fsync`.
    pub fn kill(&self) -> Result<(), Failure> {
        self.end(|postmaster| postmaster.kill(self.data_folder()))
    }

    /// Starts a stopped or killed server again, on the same port, and waits until it accepts
    /// connections.
    pub fn start_again(&self) -> Result<(), Failure> {
        let mut postmaster = self.postmaster();
        if postmaster.is_some() {
            return Err(Failure::new("the server is running already"));
        }
        *postmaster = Some(Postmaster::start(&self.programs, &self.folder, self.port)?);
        Ok(())
    }

    /// Stops the server and starts it again.
    pub fn restart(&self, how: Stop) -> Result<(), Failure> {
        self.stop(how)?;
        self.start_again()
    }

    /// Promotes a standby, and waits until it accepts writes.
    pub fn promote(&self) -> Result<(), Failure> {
        self.run_sql("postgres", "SELECT pg_promote(false)")?;
        wait_for("the standby to take writes", || {
            let follows = self.run_sql("postgres", "SELECT pg_is_in_recovery()")?;
            Ok((follows == "f").then_some(()))
        })
    }

    /// A server that is not running, with an empty folder; guarded from here on, however its
    /// creation ends.
    fn stopped(medium: Medium) -> Result<Self, Failure> {
        let programs = Programs::find()?;
        let folder = Folder::create(&programs, medium)?;
        let guardian = Guardian::post(folder.path())?;
        Ok(Self {
            _guardian: guardian,
            postmaster: Mutex::new(None),
            programs,
            folder,
            port: free_port()?,
        })
    }

    /// Drops the postmaster only once it has ended.
    fn end(&self, how: impl FnOnce(&mut Postmaster) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut running = self.postmaster();
        if let Some(postmaster) = running.as_mut() {
            how(postmaster)?;
        }
        *running = None;
        Ok(())
    }

    fn postmaster(&self) -> MutexGuard<'_, Option<Postmaster>> {
        self.postmaster.lock()
    }
}
