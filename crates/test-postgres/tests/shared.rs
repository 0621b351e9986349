//! The server that the tests of one process share.

use std::net::{TcpStream, ToSocketAddrs};

use tidelock_test_postgres::shared_url;

#[test]
fn the_shared_server_is_there_and_is_always_the_same() {
    let url = shared_url().unwrap();
    assert_eq!(url, shared_url().unwrap());
    let place = url.split_once('@').unwrap().1.split_once('/').unwrap().0;
    let address = place.to_socket_addrs().unwrap().next().unwrap();
    TcpStream::connect(address).unwrap();
}
