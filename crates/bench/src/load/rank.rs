//! The generator's rank beside what it measures, where both share a machine: equal, unless it is asked to outrank it.
//!
//! A generator that waits for a processor is late, and a trial with a late generator is invalid: on a small machine a load
//! that uses up the processors could never be measured. Only the thread of the load is ranked, and only while it
//! runs, so that what it starts is not. The whole process has one rank, and every report says which.

use std::io;
use std::sync::OnceLock;

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Nice values: 0 is everybody's, -20 is the highest priority.
const NICE: i32 = -15;
/// With so many processors one can be kept for the generator.
const RESERVE_FROM: usize = 4;

static RANK: OnceLock<Rank> = OnceLock::new();

#[derive(Debug, Clone)]
enum Rank {
    Priority { usual: i32 },
    Processor { own: usize, others: Box<CpuSet> },
}

/// From now on the thread of the load outranks what it measures. Whatever this thread starts later keeps off its
/// processor, so this comes first.
pub fn outrank() -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let rank = match reserved(&processors) {
        Some(own) => {
            let mut others = allowed;
            others.unset(own);
            sched_setaffinity(None, &others)?;
            Rank::Processor { own, others: Box::new(others) }
        }
        None => Rank::Priority { usual: getpriority_process(None)? },
    };
    // What is not allowed is better known now.
    drop(Raised::by(Some(&rank))?);
    RANK.set(rank).map_err(|_already| io::Error::other("the rank was set before"))
}

/// The last one: the first takes the machine's interrupts, often.
fn reserved(processors: &[usize]) -> Option<usize> {
    processors.last().copied().filter(|_| processors.len() >= RESERVE_FROM)
}

/// For the report.
pub fn said() -> String {
    match RANK.get() {
        None => "equal to what it measures".to_owned(),
        Some(Rank::Priority { .. }) => format!("outranks what it measures: nice {NICE}"),
        Some(Rank::Processor { own, .. }) => format!("outranks what it measures: processor {own} is its own"),
    }
}

/// The thread of the load while it runs.
pub(super) struct Raised<'a>(Option<&'a Rank>);

impl Raised<'static> {
    pub(super) fn now() -> io::Result<Self> {
        Raised::by(RANK.get())
    }
}

impl<'a> Raised<'a> {
    fn by(rank: Option<&'a Rank>) -> io::Result<Self> {
        match rank {
            None => {}
            // Of this thread: on Linux a priority is a thread's.
            Some(Rank::Priority { .. }) => setpriority_process(None, NICE)?,
            Some(Rank::Processor { own, .. }) => {
                let mut reserved = CpuSet::new();
                reserved.set(*own);
                sched_setaffinity(None, &reserved)?;
            }
        }
        Ok(Self(rank))
    }
}

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        // To step down is always allowed.
        let stepped_down = match self.0 {
            None => Ok(()),
            Some(Rank::Priority { usual }) => setpriority_process(None, *usual),
            Some(Rank::Processor { others, .. }) => sched_setaffinity(None, others),
        };
        debug_assert!(stepped_down.is_ok(), "{stepped_down:?}");
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::getpid;

    use super::*;

    #[test]
    fn a_processor_is_reserved_where_there_are_four() {
        assert_eq!(reserved(&[0, 1]), None);
        assert_eq!(reserved(&[0, 1, 2]), None);
        assert_eq!(reserved(&[0, 1, 2, 3]), Some(3));
        assert_eq!(reserved(&[2, 3, 6, 7, 9]), Some(9));
    }

    /// Both ranks on a thread of its own, with what this machine has.
    #[test]
    fn the_thread_is_raised_while_it_runs_and_not_after() {
        let ranked = std::thread::spawn(|| {
            let allowed = sched_getaffinity(None).unwrap();
            let own = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
            let rank = Rank::Processor { own, others: Box::new(allowed) };
            let raised = Raised::by(Some(&rank)).unwrap();
            assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
            drop(raised);
            assert_eq!(sched_getaffinity(None).unwrap(), allowed);

            let usual = getpriority_process(None).unwrap();
            let rank = Rank::Priority { usual };
            match Raised::by(Some(&rank)) {
                Ok(raised) => {
                    assert_eq!(getpriority_process(None).unwrap(), NICE);
                    // The process's first thread is not.
                    assert_eq!(getpriority_process(Some(getpid())).unwrap(), usual);
                    drop(raised);
                }
                // Not root.
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
            }
            assert_eq!(getpriority_process(None).unwrap(), usual);
        });
        ranked.join().unwrap();
    }
}
