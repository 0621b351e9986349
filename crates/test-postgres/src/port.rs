//! A free port on the loopback that stays free while its server is down.
//!
//! The kernel's own choice would come from the range that it gives to outgoing connections, where
//! any client could be given the port of a server that is just being restarted. Ports below that
//! range are taken only by who asks for them.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

use crate::failure::Failure;

/// Linux hands out 32768 and above.
const LOWEST: u16 = 12_000;
const HIGHEST: u16 = 32_000;

const TRIES: u32 = 100;

/// A port that nobody listens on now. Random, so that two who look at the same moment find
/// different ones.
pub(crate) fn free_port() -> Result<u16, Failure> {
    (0..TRIES)
        .map(|_| random_port())
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or_else(|| Failure::new(format!("found no free port between {LOWEST} and {HIGHEST}")))
}

/// Every new hash state is seeded by the system's randomness, and this crate needs no other.
fn random_port() -> u16 {
    let span = u64::from(HIGHEST - LOWEST);
    let step = RandomState::new().hash_one(()) % span;
    LOWEST + u16::try_from(step).expect("less than the span, which is of two ports")
}
