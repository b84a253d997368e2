//! Swap of the whole host, off and on again: only where somebody allowed it.

use std::fs::read_to_string;
use std::process::Command;

use anyhow::{Context, ensure};

const SWAPS: &str = "/proc/swaps";

/// The host's swap, turned off until this goes away.
#[derive(Debug)]
pub(super) struct SwapOff {
    devices: Vec<String>,
}

impl SwapOff {
    /// # Errors
    /// If the host does not allow it.
    pub(super) fn begin() -> anyhow::Result<Self> {
        let off = Self { devices: devices(&read_to_string(SWAPS)?) };
        for device in &off.devices {
            // What was swapped out before comes back here; if that does not fit, the rest is turned on again.
            swap("swapoff", device)?;
        }
        ensure!(!host_has_swap()?, "swap is still on");
        Ok(off)
    }
}

impl Drop for SwapOff {
    fn drop(&mut self) {
        let on = read_to_string(SWAPS).map(|text| devices(&text)).unwrap_or_default();
        for device in self.devices.iter().filter(|device| !on.contains(device)) {
            if let Err(error) = swap("swapon", device) {
                eprintln!("error: the swap on {device} stays off: {error:#}");
            }
        }
    }
}

pub(super) fn host_has_swap() -> anyhow::Result<bool> {
    Ok(!devices(&read_to_string(SWAPS).context(SWAPS)?).is_empty())
}

fn swap(program: &str, device: &str) -> anyhow::Result<()> {
    let output = Command::new(program).arg(device).output().with_context(|| format!("running {program}"))?;
    ensure!(
        output.status.success(),
        "{program} {device}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// The first word of each line but the head.
fn devices(swaps: &str) -> Vec<String> {
    swaps.lines().skip(1).filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect()
}

/// Bytes of a process that are in swap.
pub(super) fn swapped_bytes(pid: u32) -> anyhow::Result<u64> {
    let status = read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmSwap:")).context("no VmSwap")?;
    let kib: u64 = line.split_whitespace().next().context("no VmSwap")?.parse()?;
    Ok(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_is_read_from_proc() {
        let text = "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n/swap file 9 0 -3\n";
        assert_eq!(devices(text), ["/dev/sda2", "/swap"]);
        assert!(devices("Filename Type Size Used Priority\n").is_empty());
        assert!(swapped_bytes(std::process::id()).is_ok());
    }
}
