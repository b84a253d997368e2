//! SIGHUP: the configuration and the files that it names are read again, and what can change while the server serves does.
//!
//! Everything is read and checked before anything changes: a wrong file changes nothing. Must not: know what a change means
//! to the server.

use std::io;
use std::thread;

use server::config::{Environment, Sources};
use server::{Reloader, Secrets};
use signal_hook::iterator::Signals;

use crate::logging::SetLevel;

pub(crate) struct Reloading {
    environment: Environment,
    /// As the server was started.
    started: Sources,
    /// As it was last read without a mistake.
    last: Sources,
    reloader: Reloader,
    set_level: SetLevel,
}

impl Reloading {
    pub(crate) fn new(
        environment: Environment,
        started: Sources,
        reloader: Reloader,
        set_level: SetLevel,
    ) -> Reloading {
        Reloading { environment, last: started.clone(), started, reloader, set_level }
    }

    /// Reloads at each signal, those included that came since it was listened for. `read` reads the sources again.
    pub(crate) fn start(
        mut self,
        mut hangups: Signals,
        read: impl Fn() -> Sources + Send + 'static,
    ) -> io::Result<()> {
        let wait = move || {
            for _ in hangups.forever() {
                if let Err(problem) = self.reload(read()) {
                    tracing::error!("nothing is reloaded: {}", problem.replace('\n', "; "));
                }
            }
        };
        thread::Builder::new().name("reload".to_owned()).spawn(wait).map(drop)
    }

    fn reload(&mut self, sources: Sources) -> Result<(), String> {
        let config = sources.clone().load().map_err(|errors| errors.to_string())?;
        let secrets = Secrets::load(&config, &self.environment).map_err(|errors| errors.to_string())?;
        self.reloader.reload(&config, &secrets)?;
        (self.set_level)(config.log.level);
        let taken_up = |key: &String| self.reloader.takes_up(key);
        let (changed, _): (Vec<_>, Vec<_>) = sources.keys_unlike(&self.last).into_iter().partition(taken_up);
        let restart: Vec<_> =
            sources.keys_unlike(&self.started).into_iter().filter(|key| !taken_up(key)).collect();
        tracing::info!(
            changed = changed.join(", "),
            "reloaded the secrets, the certificate and the keys that can change"
        );
        if !restart.is_empty() {
            tracing::warn!(keys = restart.join(", "), "these keys have changed, and need a restart");
        }
        self.last = sources;
        Ok(())
    }
}
