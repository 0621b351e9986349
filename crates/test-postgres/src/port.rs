//! A free loopback port that stays free while its server is down.
//!
//! A port chosen by the kernel comes from the range of outgoing connections, where any client could
//! get the port of a server that is being restarted. Ports below that range are used only on
//! request.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

use crate::failure::Failure;

/// Linux hands out 32768 and above.
const LOWEST: u16 = 12_000;
const HIGHEST: u16 = 32_000;

const TRIES: u32 = 100;

/// A port without a listener. Random, so that two concurrent callers find different ones.
pub(crate) fn free_port() -> Result<u16, Failure> {
    (0..TRIES)
        .map(|_| random_port())
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or_else(|| Failure::new(format!("found no free port between {LOWEST} and {HIGHEST}")))
}

/// Every new hash state is seeded by the system; this crate needs no other randomness.
fn random_port() -> u16 {
    let span = u64::from(HIGHEST - LOWEST);
    let step = RandomState::new().hash_one(()) % span;
    LOWEST + u16::try_from(step).expect("less than the span, which is of two ports")
}
