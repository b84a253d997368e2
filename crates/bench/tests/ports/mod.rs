//! Ports for the engines of a test.

use std::fs::{self, File};
use std::net::TcpListener;

use bench::target::engines::PORTS_PER_SET;

/// Ports that no other test has, and the lock that keeps them: the server's tests lock the same files, from the other end.
pub(super) fn free_ports() -> (u16, File) {
    let locks = std::env::temp_dir().join("doorbuster-test-ports");
    fs::create_dir_all(&locks).expect("a folder of locks");
    for base in (22_000..32_000).step_by(PORTS_PER_SET.into()).rev() {
        let lock = File::create(locks.join(base.to_string())).expect("a lock");
        let free = || (base..base + PORTS_PER_SET).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
        if lock.try_lock().is_ok() && free() {
            return (base, lock);
        }
    }
    panic!("no free ports");
}
