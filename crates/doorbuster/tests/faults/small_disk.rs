//! A MariaDB or a broker of its own whose data are on a file system that can be filled.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::engines::Engines;
use crate::small_mount::SmallMount;

const MET_WITHIN: Duration = Duration::from_secs(60);

/// Whose disk it is.
#[derive(Debug)]
pub(crate) struct Owner {
    /// To start, and the member of it that has the data, in this folder.
    engine: &'static str,
    member: &'static str,
    data: &'static str,
    size: &'static str,
    /// What filling leaves, in bytes.
    left: u64,
    /// What its log says when it has met the end of its disk, if it says that reliably.
    met: &'static [&'static str],
}

/// A new one has 126 MB of data. What is left takes some batches of orders.
pub(crate) const MARIADB: Owner = Owner {
    engine: "mariadb",
    member: "mariadb",
    data: "data",
    size: "200m",
    left: 256 * 1024,
    met: &["error 28", "Errcode: 28", "No space left", "is full"],
};

/// Its files are maps with holes: what is missing is found out when it writes to memory. Or a server looks at its disk
/// first, and sends it nothing more: then it reports nothing.
pub(crate) const BROKER: Owner =
    Owner { engine: "rocketmq", member: "rocketmq-broker", data: "store", size: "800m", left: 0, met: &[] };

#[derive(Debug)]
pub(crate) struct SmallDisk {
    owner: &'static Owner,
    pub(crate) engines: Engines,
    mount: SmallMount,
}

impl SmallDisk {
    pub(crate) fn of(owner: &'static Owner) -> SmallDisk {
        let mount = SmallMount::new(owner.size);
        // Its data are made on the large disk, with its log, which must show what happened; then they move.
        let engines = Engines::private(&[owner.engine], &[("DOORBUSTER_ROCKETMQ_OPTIONS", "")]);
        engines.kill(owner.member);
        let data = engines.dir().join(owner.member).join(owner.data);
        let copy = ["-a", "--sparse=always"];
        let moved = Command::new("cp").args(copy).args([&data, &mount.path().join("data")]).status().unwrap();
        assert!(moved.success());
        fs::remove_dir_all(&data).unwrap();
        symlink(mount.path().join("data"), &data).unwrap();
        engines.up(&[owner.engine]);
        SmallDisk { owner, engines, mount }
    }

    /// Of a member of this engine, if it is the owner's.
    pub(crate) fn address(&self, engine: &str, member: &str) -> Option<String> {
        (self.owner.engine == engine).then(|| self.engines.address(member))
    }

    /// Takes what is free but for what shall be left; the owner writes meanwhile.
    pub(crate) fn fill(&self) {
        self.mount.fill(self.owner.left);
    }

    /// Until the owner has met the end of its disk.
    pub(crate) fn wait_until_met(&self) {
        let began = Instant::now();
        while !self.was_met() {
            assert!(began.elapsed() < MET_WITHIN, "nothing was written");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// By its log.
    fn was_met(&self) -> bool {
        let log = fs::read_to_string(self.engines.dir().join(self.owner.member).join("log")).unwrap();
        self.owner.met.iter().any(|text| log.contains(text))
    }

    /// Gives back what was taken.
    pub(crate) fn free(&self) {
        self.mount.free();
    }

    /// Kills the owner, if it has not ended itself, and starts it anew.
    pub(crate) fn restart(&self) {
        if self.engines.member(self.owner.member).runs() {
            self.engines.kill(self.owner.member);
        }
        self.engines.up(&[self.owner.engine]);
    }
}
