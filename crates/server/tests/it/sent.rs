//! Sends as a server does.

use std::time::{Duration, Instant};

use server::queue::{Producer, SendError};

const PATIENCE: Duration = Duration::from_secs(20);

/// Again, where nothing was sent: a broker to which no connection is open yet, on a busy machine, is waited for longer
/// than one call waits. What may have been stored is sent once.
pub(crate) fn send(producer: &mut Producer, topic: &str, bodies: &[impl AsRef<[u8]>]) {
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = producer.send(topic, bodies) {
        let again = matches!(error, SendError::NotSent(_)) && Instant::now() < deadline;
        assert!(again, "{topic}: {error}");
    }
}
