//! Swap of the whole host, off and on again: only where somebody allowed it.

use std::fs::read_to_string;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::host::procfs;
use crate::progress::say;

/// Where the host's swap is seen and switched; another place in tests.
#[derive(Debug, Clone)]
pub(super) struct Host {
    swaps: PathBuf,
    swapoff: PathBuf,
    swapon: PathBuf,
}

impl Default for Host {
    fn default() -> Self {
        Self { swaps: "/proc/swaps".into(), swapoff: "swapoff".into(), swapon: "swapon".into() }
    }
}

/// The host's swap, turned off until this goes away.
#[derive(Debug)]
pub(super) struct SwapOff {
    host: Host,
    devices: Vec<String>,
}

impl Host {
    pub(super) fn has_swap(&self) -> anyhow::Result<bool> {
        Ok(!self.devices()?.is_empty())
    }

    /// The first word of each line but the head.
    fn devices(&self) -> anyhow::Result<Vec<String>> {
        let text = read_to_string(&self.swaps).with_context(|| self.swaps.display().to_string())?;
        Ok(text.lines().skip(1).filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect())
    }

    /// # Errors
    /// If the host does not allow it, or what is swapped out does not fit the memory. Then it is on as before.
    pub(super) fn turn_off(self) -> anyhow::Result<SwapOff> {
        let off = SwapOff { devices: self.devices()?, host: self };
        for device in &off.devices {
            switch(&off.host.swapoff, device)?;
        }
        ensure!(!off.host.has_swap()?, "swap is still on");
        Ok(off)
    }
}

impl Drop for SwapOff {
    fn drop(&mut self) {
        let on = self.host.devices().unwrap_or_default();
        for device in self.devices.iter().filter(|device| !on.contains(device)) {
            if let Err(error) = switch(&self.host.swapon, device) {
                say(&format!("error: the swap on {device} stays off: {error:#}"));
            }
        }
    }
}

fn switch(program: &PathBuf, device: &str) -> anyhow::Result<()> {
    let name = program.display();
    let output = Command::new(program).arg(device).output().with_context(|| format!("running {name}"))?;
    ensure!(output.status.success(), "{name} {device}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// Bytes of a process that are in swap.
pub(super) fn swapped_bytes(pid: u32) -> anyhow::Result<u64> {
    let swapped = procfs::process(pid)?.status()?.vmswap;
    Ok(swapped.context("no VmSwap")? * 1024)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const SWAPS: &str = "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n/swap file 9 0 -3\n";

    /// A host whose swap is a file and two scripts; `swapoff` refuses the device `stuck`.
    fn host(folder: &std::path::Path, stuck: &str) -> Host {
        let swaps = folder.join("swaps");
        fs::write(&swaps, SWAPS).unwrap();
        let script = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let file = swaps.display();
        let off = format!(
            "[ \"$1\" != {stuck} ] || exit 1\ngrep -v \"^$1 \" {file} >{file}.new; mv {file}.new {file}"
        );
        Host {
            swapoff: script("swapoff", off),
            swapon: script("swapon", format!("echo \"$1 file 1 0 -2\" >>{file}")),
            swaps,
        }
    }

    #[test]
    fn swap_is_off_for_a_while_and_then_as_before() {
        let folder = tempfile::tempdir().unwrap();
        let host = host(folder.path(), "nothing");
        let before = host.devices().unwrap();
        assert_eq!(before, ["/dev/sda2", "/swap"]);
        let off = host.clone().turn_off().unwrap();
        assert!(!host.has_swap().unwrap());
        drop(off);
        assert_eq!(host.devices().unwrap(), before);
    }

    #[test]
    fn what_was_turned_off_before_a_refusal_is_turned_on_again() {
        let folder = tempfile::tempdir().unwrap();
        let host = host(folder.path(), "/swap");
        assert!(host.clone().turn_off().is_err());
        let mut devices = host.devices().unwrap();
        devices.sort();
        assert_eq!(devices, ["/dev/sda2", "/swap"]);
    }

    #[test]
    fn what_is_swapped_out_of_this_process_is_known() {
        assert!(swapped_bytes(std::process::id()).is_ok());
        assert!(Host::default().has_swap().is_ok());
    }
}
