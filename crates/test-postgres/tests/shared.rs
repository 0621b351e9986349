//! The server that the tests of one process share.

use std::net::{TcpStream, ToSocketAddrs};

use tidelock_test_postgres::{shared_database, shared_url};

#[test]
fn the_shared_server_is_there_and_is_always_the_same() {
    let url = shared_url().unwrap();
    assert_eq!(url, shared_url().unwrap());
    let place = url.split_once('@').unwrap().1.split_once('/').unwrap().0;
    let address = place.to_socket_addrs().unwrap().next().unwrap();
    TcpStream::connect(address).unwrap();
}

#[test]
fn a_shared_database_is_on_the_shared_server_and_has_few_tenants() {
    let databases: Vec<String> = (0..100).map(|_| shared_database().unwrap()).collect();
    let (server, _) = databases[0].rsplit_once('/').unwrap();
    assert_eq!(server, shared_url().unwrap().rsplit_once('/').unwrap().0);
    assert_ne!(databases[0], shared_url().unwrap());
    let most =
        databases.iter().map(|one| databases.iter().filter(|other| one == *other).count()).max();
    assert_eq!(most, Some(32));
}
