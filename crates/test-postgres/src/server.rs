//! A PostgreSQL server of one's own.
//!
//! `Server` only gives orders: to [`Postmaster`] for a process, to `psql` for SQL, and to the
//! [`Guardian`] to have it all end. How a server is made anew or copied from another is in
//! `server/`.

mod make;
mod sql;

pub(crate) use sql::converse;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::failure::Failure;
use crate::folder::{Folder, Medium};
use crate::guardian::Guardian;
use crate::patience::wait_for;
use crate::port::free_port;
use crate::postmaster::{Postmaster, Stop};
use crate::programs::Programs;
use crate::shared::SHARED_SETTINGS;

/// A server on a port of its own, stopped at once and removed with its folder when dropped, or when
/// this process ends in whichever way.
#[derive(Debug)]
pub struct Server {
    // Dropped first: it stops the server, and then there is a postmaster to bury.
    _guardian: Guardian,
    postmaster: Mutex<Option<Postmaster>>,
    programs: Programs,
    folder: Folder,
    port: u16,
}

impl Server {
    /// A new, empty server, with `fsync` on, that trusts every local connection.
    pub fn start() -> Result<Self, Failure> {
        Self::start_with(&[])
    }

    /// A new, empty server with settings of `postgresql.conf` beside or instead of the usual ones.
    pub fn start_with(settings: &[(&str, &str)]) -> Result<Self, Failure> {
        Self::start_on(Medium::Disk, settings)
    }

    /// A new, empty server that many tests share, whose files are in memory if there is room.
    pub fn start_shared() -> Result<Self, Failure> {
        Self::start_on(Medium::Memory, &SHARED_SETTINGS)
    }

    fn start_on(medium: Medium, settings: &[(&str, &str)]) -> Result<Self, Failure> {
        let server = Self::stopped(medium)?;
        make::anew(&server.programs, &server.folder, settings)?;
        server.start_again()?;
        Ok(server)
    }

    /// A copy of this server that follows it by streaming replication under this
    /// `application_name`, and answers reads.
    ///
    /// Behavior: it has the settings of this server, but for `synchronous_standby_names`:
    /// promoted, it waits for nobody until it is told to. Whether this server waits for the standby
    /// is up to this server's settings.
    pub fn standby(&self, name: &str) -> Result<Self, Failure> {
        let standby = Self::stopped(Medium::Disk)?;
        make::copy_of(self, &standby.programs, &standby.folder, name)?;
        standby.start_again()?;
        Ok(standby)
    }

    /// The port on 127.0.0.1, the same for as long as the server is there.
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

    /// Where the server's socket is.
    pub fn socket_folder(&self) -> &Path {
        self.folder.sockets()
    }

    /// Where the server's data is.
    pub fn data_folder(&self) -> &Path {
        self.folder.data()
    }

    /// Stops the server and waits until it has ended, for a minute or two at most. One that is not
    /// running stays so.
    pub fn stop(&self, how: Stop) -> Result<(), Failure> {
        self.end(|postmaster| postmaster.stop(how))
    }

    /// Kills the postmaster and all of its processes, as a power cut would. What the server gave to
    /// the kernel stays, also where it did not ask for it to be written.
    pub fn kill(&self) -> Result<(), Failure> {
        self.end(|postmaster| postmaster.kill(self.data_folder()))
    }

    /// Starts a server that was stopped or killed, on the same port, and waits until it takes
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

    /// Makes a standby a server in its own right, and waits until it takes writes.
    pub fn promote(&self) -> Result<(), Failure> {
        self.run_sql("postgres", "SELECT pg_promote(false)")?;
        wait_for("the standby to take writes", || {
            let follows = self.run_sql("postgres", "SELECT pg_is_in_recovery()")?;
            Ok((follows == "f").then_some(()))
        })
    }

    /// Not running, with an empty folder; guarded from here on, however the rest of its making
    /// goes.
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

    /// Forgets the postmaster only once it has ended.
    fn end(&self, how: impl FnOnce(&mut Postmaster) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut running = self.postmaster();
        if let Some(postmaster) = running.as_mut() {
            how(postmaster)?;
        }
        *running = None;
        Ok(())
    }

    fn postmaster(&self) -> MutexGuard<'_, Option<Postmaster>> {
        // Whoever panicked while holding it left it as true as it was.
        self.postmaster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
