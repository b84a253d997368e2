//! What the system says of its own clock.

use rtime_clock::adjtime::{Timex, adjtimex};

/// The kernel's answer if nothing has disciplined the clock for a while, or ever.
const TIME_ERROR: i32 = 5;

/// Whether the system's clock is kept right by NTP, PTP or the like, as far as the kernel knows. If it doesn't say: no.
pub fn is_synchronised() -> bool {
    // Nothing is set by it: its modes are zero.
    adjtimex(&mut Timex::new()).is_ok_and(|state| state != TIME_ERROR)
}
