//! File descriptors: each connection takes one, and a server that runs out of them can't even say 503. So the limit
//! is raised as far as this process may, and no more connections are promised than it leaves room for.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::event_loop::REFUSED_MAX;

/// Descriptors that are no connections: standard streams, the ledger's files, signals, readers of the ledger.
const KEPT: u64 = 64;
/// Of each event loop: its epoll instance, its waker, its listener, and the connections that it is turning away.
const PER_LOOP: u64 = 3 + REFUSED_MAX as u64;

/// Raises the soft limit of open descriptors to the hard one, and returns what it is then.
///
/// A process may do that for itself; it starts low only for the sake of programs that use `select`, and every
/// child inherits it, but we have none.
pub fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let Rlimit { current, maximum } = limit;
    if current == maximum {
        return current.unwrap_or(u64::MAX);
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum.unwrap_or(u64::MAX),
        Err(error) => {
            tracing::warn!(%error, "the limit of open file descriptors can't be raised");
            current.unwrap_or(u64::MAX)
        }
    }
}

/// How many of the `wanted` connections this limit has room for; one at least.
pub fn connections_within(limit: u64, wanted: usize, event_loops: usize) -> usize {
    let others = KEPT + PER_LOOP * event_loops as u64;
    let room = usize::try_from(limit.saturating_sub(others)).unwrap_or(usize::MAX);
    wanted.min(room.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_everything_else() {
        for (limit, wanted, event_loops, connections) in [
            (u64::MAX, 20_000, 1, 20_000),
            (1_048_576, 1_000_000, 64, 1_000_000),
            (1024, 20_000, 1, 1024 - 64 - 131),
            (1024, 100, 1, 100),
            (1024, 20_000, 4, 1024 - 64 - 4 * 131),
            (256, 20_000, 1, 61),
            (64, 20_000, 1, 1),
            (0, 20_000, 64, 1),
        ] {
            let found = connections_within(limit, wanted, event_loops);
            assert_eq!(found, connections, "{limit} {wanted} {event_loops}");
        }
    }

    #[test]
    fn the_limit_is_raised_as_far_as_it_may_be() {
        let hard = getrlimit(Resource::Nofile).maximum;
        assert_eq!(raise_limit(), hard.unwrap_or(u64::MAX));
        assert_eq!(getrlimit(Resource::Nofile).current, hard);
    }
}
