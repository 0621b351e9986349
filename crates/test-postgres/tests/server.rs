//! Operations of a private server.

use std::fs;
use std::net::TcpStream;

use tidelock_test_postgres::{Server, Stop};

#[test]
fn a_new_server_takes_sql_and_is_where_it_says() {
    let server = Server::start().unwrap();
    server.create_database("of a \"test\"").unwrap();
    assert_eq!(server.run_sql("of a \"test\"", "SELECT 1, 'two'; SELECT 3").unwrap(), "1|two\n3");
    assert_eq!(server.url(), format!("postgres://postgres@127.0.0.1:{}/postgres", server.port()));
    TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    assert!(server.socket_folder().join(format!(".s.PGSQL.{}", server.port())).exists());
}

#[test]
fn sql_that_fails_says_why_and_runs_no_further() {
    let server = Server::start().unwrap();
    let failure =
        server.run_sql("postgres", "CREATE TABLE a (); SELECT 1/0; CREATE TABLE b ()").unwrap_err();
    assert!(failure.to_string().contains("division by zero"), "{failure}");
    let tables = "SELECT relname FROM pg_class WHERE relname IN ('a', 'b')";
    assert_eq!(server.run_sql("postgres", tables).unwrap(), "a");
}

#[test]
fn what_was_committed_is_there_after_every_way_to_stop() {
    let server = Server::start().unwrap();
    server.run_sql("postgres", "CREATE TABLE kept (how text)").unwrap();
    for how in [Stop::Smart, Stop::Fast, Stop::Immediate] {
        server.run_sql("postgres", &format!("INSERT INTO kept VALUES ('{how:?}')")).unwrap();
        server.restart(how).unwrap();
    }
    server.run_sql("postgres", "INSERT INTO kept VALUES ('Kill')").unwrap();
    server.kill().unwrap();
    assert!(server.run_sql("postgres", "SELECT").is_err());
    server.start_again().unwrap();
    let kept = server.run_sql("postgres", "SELECT how FROM kept").unwrap();
    assert_eq!(kept, "Smart\nFast\nImmediate\nKill");
}

#[test]
fn a_kill_spares_no_process() {
    let server = Server::start().unwrap();
    let _client = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    assert!(processes_of(&server) > 1);
    server.kill().unwrap();
    assert_eq!(processes_of(&server), 0);
}

#[test]
fn a_server_is_started_with_settings_and_told_others() {
    let server =
        Server::start_with(&[("max_connections", "17"), ("search_path", "it's, a\\b")]).unwrap();
    assert_eq!(
        server.run_sql("postgres", "SHOW max_connections; SHOW search_path").unwrap(),
        "17\nit's, a\\b"
    );
    assert_eq!(server.run_sql("postgres", "SHOW fsync").unwrap(), "on");

    server.set("work_mem", "7MB").unwrap();
    assert_eq!(server.run_sql("postgres", "SHOW work_mem").unwrap(), "7MB");
    assert!(server.set("work_mem", "much").is_err());
    let failure = server.set("max_connections", "18").unwrap_err();
    assert!(failure.to_string().contains("restart"), "{failure}");
    server.restart(Stop::Fast).unwrap();
    assert_eq!(server.run_sql("postgres", "SHOW max_connections").unwrap(), "18");
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let failure = Server::start_with(&[("max_connections", "many")]).unwrap_err();
    assert!(failure.to_string().contains("invalid value for parameter"), "{failure}");
}

#[test]
fn a_dropped_server_leaves_nothing() {
    let server = Server::start().unwrap();
    let (data, port) = (server.data_folder().to_owned(), server.port());
    drop(server);
    assert!(!data.parent().unwrap().exists());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn a_server_that_was_killed_and_dropped_leaves_no_shared_memory() {
    let server = Server::start().unwrap();
    let segment = segment_of(&server);
    assert!(segments().contains(&segment));
    server.kill().unwrap();
    drop(server);
    assert!(!segments().contains(&segment));
}

#[test]
fn a_standby_follows_and_takes_over_when_its_primary_is_killed() {
    let primary = Server::start().unwrap();
    primary.run_sql("postgres", "CREATE TABLE kept (n int)").unwrap();
    primary.set("synchronous_standby_names", "\"the second\"").unwrap();
    primary.set("synchronous_commit", "remote_apply").unwrap();
    let standby = primary.standby("the second").unwrap();
    primary.run_sql("postgres", "INSERT INTO kept VALUES (1)").unwrap();
    let followers = "SELECT application_name, state, sync_state FROM pg_stat_replication";
    assert_eq!(primary.run_sql("postgres", followers).unwrap(), "the second|streaming|sync");
    assert_eq!(standby.run_sql("postgres", "SELECT n FROM kept").unwrap(), "1");
    assert!(standby.run_sql("postgres", "INSERT INTO kept VALUES (2)").is_err());

    primary.kill().unwrap();
    standby.promote().unwrap();
    standby.run_sql("postgres", "INSERT INTO kept VALUES (2)").unwrap();
    assert_eq!(standby.run_sql("postgres", "SELECT n FROM kept").unwrap(), "1\n2");
}

/// The number of processes in the server's folder.
fn processes_of(server: &Server) -> usize {
    let processes = fs::read_dir("/proc").expect("every Linux has it").flatten();
    processes
        .filter(|process| {
            fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == server.data_folder())
        })
        .count()
}

/// The segment of shared memory that a running server holds, by the number in its own file.
fn segment_of(server: &Server) -> String {
    let file =
        fs::read_to_string(server.data_folder().join("postmaster.pid")).expect("the server runs");
    let line = file.lines().nth(6).expect("the seventh line is about shared memory");
    line.split_whitespace().nth(1).expect("a key and a number").to_owned()
}

fn segments() -> Vec<String> {
    let table = fs::read_to_string("/proc/sysvipc/shm").expect("every Linux has it");
    table.lines().filter_map(|line| line.split_whitespace().nth(1)).map(str::to_owned).collect()
}
