//! A real pgbouncer in transaction mode: every transaction of a client may get another server
//! connection.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Its server connections, for all of its clients.
pub(crate) const SERVER_CONNECTIONS: usize = 2;

const PATIENCE: Duration = Duration::from_secs(60);

/// Ends the pooler with the test, however it ends: then the shell's input ends.
const RUN: &str = r#""$0" "$@" & read -r _; kill $!; wait $!"#;

/// Ended when dropped.
pub(crate) struct PgBouncer {
    shell: Child,
    pub(crate) port: u16,
    folder: TempDir,
}

impl PgBouncer {
    /// A pooler in front of the server at this port, with few connections to it.
    pub(crate) fn before(server: u16) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let settings = folder.path().join("pgbouncer.ini");
        fs::write(&settings, ini(server, port)).unwrap();
        let mut pooler = Self { shell: run(&settings, folder.path()), port, folder };
        pooler.wait_until_ready();
        pooler
    }

    fn wait_until_ready(&mut self) {
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "pgbouncer does not answer: {}", self.said());
            assert!(self.shell.try_wait().unwrap().is_none(), "pgbouncer ended: {}", self.said());
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn said(&self) -> String {
        fs::read_to_string(log(self.folder.path())).unwrap_or_default()
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        // A line is as good as the end of the input.
        let told = self.shell.stdin.take().map(|mut input| input.write_all(b"\n"));
        let _ended = told.map(|_| self.shell.wait());
    }
}

fn run(settings: &Path, folder: &Path) -> Child {
    let program = program();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", RUN]).arg(&program).arg(settings);
    // It refuses to run as root, and changes to another user when told to.
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.args(["-u", "postgres"]);
    }
    let log = fs::File::create(log(folder)).unwrap();
    let command = command.stdin(Stdio::piped()).stdout(log.try_clone().unwrap()).stderr(log);
    command.spawn().unwrap_or_else(|error| panic!("cannot run {}: {error}", program.display()))
}

/// Debian puts it where only administrators have it on their path.
fn program() -> PathBuf {
    let debian = Path::new("/usr/sbin/pgbouncer");
    if debian.exists() { debian.to_owned() } else { PathBuf::from("pgbouncer") }
}

fn log(folder: &Path) -> PathBuf {
    folder.join("log")
}

fn ini(server: u16, port: u16) -> String {
    format!(
        "[databases]\n\
         * = host=127.0.0.1 port={server} user=postgres\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         pool_mode = transaction\n\
         default_pool_size = {SERVER_CONNECTIONS}\n\
         max_client_conn = 200\n\
         server_reset_query =\n\
         ignore_startup_parameters = extra_float_digits\n"
    )
}

/// The port is free now, and may be taken by the time that the pooler listens; then it ends with an
/// error.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}
