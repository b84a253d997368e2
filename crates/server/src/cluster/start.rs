//! Starts the stages of one server, runs them until the event loops have ended, and takes them down in the order of
//! an order's path: what was accepted is published and answered before the stage behind it ends.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use engine::working_set::{Executed, Operation};
use engine::{Command, Refusal};
use ring::rand::{SecureRandom, SystemRandom};

use super::core::Core;
use super::stages::{Connect, Ends, Identity, Server, Stage};
use crate::cluster::webhooks;
use crate::config::{Config, GateMode, Secrets};
use crate::gate::{Gate, GateConfig, GateTls, Layout, Sentinel};
use crate::intake::Health;
use crate::intake::{self, Mailbox};
use crate::ledger::mysql;
use crate::ledger::mysql::cluster::{ClusterLedger, LedgerError, SharedLedger, TransactionCounters};
use crate::metrics::Metrics;
use crate::net::Stop;
use crate::queue::{self, Admin, Administer, Consume, Consumer, Produce, Producer};
use crate::webhooks::{Duty, Noticing};

/// Name of the producers' and consumers' group, for the broker's own statistics.
const GROUP: &str = "doorbuster";
/// Until a connection to Redis is made.
const GATE_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Why the stages can't be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Open(#[from] mysql::OpenError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("cannot prepare the sales: {0}")]
    Refused(Refusal),
    /// A file that the configuration names by this key.
    #[error("{0} = {1:?} can't be read: {2}")]
    File(&'static str, PathBuf, #[source] io::Error),
    #[error(transparent)]
    QueueTls(#[from] queue::TlsError),
    #[error("the gate may sell twice: {0}")]
    UnguardedMaster(String),
}

/// One server's stages, not started yet.
#[derive(Debug)]
pub struct Stages {
    server: Server,
    ledger: SharedLedger,
    /// Only if the shop has endpoints.
    webhooks: Option<(Arc<Duty>, Option<Noticing>)>,
}

/// The engines that a configuration names.
#[derive(Debug)]
struct Configured {
    ledger: SharedLedger,
    gate: GateConfig,
    queue: queue::Options,
    topic: String,
}

impl Connect for Configured {
    fn gate(&self) -> GateConfig {
        self.gate.clone()
    }

    fn ledger(&self) -> Box<dyn ClusterLedger> {
        Box::new(self.ledger.another())
    }

    fn producer(&self) -> Box<dyn Produce> {
        Box::new(Producer::new(self.queue.clone()))
    }

    fn consumer(&self) -> Box<dyn Consume> {
        Box::new(Consumer::new(self.queue.clone(), &self.topic))
    }

    fn admin(&self) -> Box<dyn Administer> {
        Box::new(Admin::new(self.queue.clone()))
    }
}

impl Stages {
    /// Connects to the ledger, which must be there: the sales and the secret of the order ids are in it. Redis and
    /// the broker may come later; the server is not ready until they do.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn new(
        config: &Config,
        secrets: &Secrets,
        server_name: String,
        mailbox: Arc<Mailbox>,
        shared: intake::Intake,
    ) -> Result<Stages, StartError> {
        let mut ledger = SharedLedger::open(&config.ledger.mysql_options(secrets))?;
        let Metrics { entries, payments_recorded, commits_failed, .. } = &*shared.metrics;
        ledger.count_into(TransactionCounters {
            entries: entries.clone(),
            payments: payments_recorded.clone(),
            failed: commits_failed.clone(),
        });
        let (gate, queue) = (gate_config(config, secrets)?, queue_options(config, secrets)?);
        // A later master is marked in /readyz: by then the sale may be live.
        if let Layout::Sentinel(_) = gate.layout
            && let Some(how) = crate::gate::unguarded_master(&Gate::new(gate.clone()).health())
        {
            return Err(StartError::UnguardedMaster(how));
        }
        let mut id = [0; 8];
        SystemRandom::new().fill(&mut id).expect("the system gives entropy");
        let identity = Identity { name: server_name, id: u64::from_be_bytes(id) >> 1 | 1 };
        let topic = config.queue.topic.clone();
        let connect = Box::new(Configured { ledger: ledger.another(), gate, queue, topic });
        let server = Server::new(config, identity, mailbox, shared, connect)?;
        Ok(Stages { server, ledger, webhooks: None })
    }

    pub(crate) fn health(&self) -> Arc<Health> {
        self.server.health()
    }

    /// Where the figures of all servers are, and what is counted here alone.
    pub(crate) fn figures(&self, servers_expected: u32) -> crate::figures::Cluster {
        let Core { servers, counts, .. } = &*self.server.core;
        crate::figures::Cluster {
            servers: Arc::clone(servers),
            servers_expected,
            dead_letters: counts.dead_letters.clone(),
            orders_lost: counts.orders_lost.clone(),
            ledger_lost_tail: counts.ledger_lost_tail.clone(),
            drift_units: counts.drift_units.clone(),
            backlog: counts.backlog.clone(),
            backlog_age_ms: counts.backlog_age_ms.clone(),
            reconciled: counts.reconciled.clone(),
            units_read: counts.units_read.clone(),
            clock_ahead_ms: counts.clock_ahead_ms.clone(),
        }
    }

    /// The secret that order ids are made with, the same on all servers.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn id_secret(&mut self) -> Result<[u8; 16], StartError> {
        Ok(self.ledger.id_secret()?)
    }

    /// Whether a demo may write to the ledger: its own, or one that is still empty and becomes its own.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn is_for_demo(&mut self) -> Result<bool, StartError> {
        Ok(self.ledger.is_for_demo()?)
    }

    /// Carries out commands before anything is served: the demo's sales. Another server may be at it as well.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn prepare(&mut self, commands: Vec<Command>) -> Result<(), StartError> {
        for command in commands {
            let operation = Operation::of(command, engine::handover::Grant::NotAsked)
                .expect("a demo's commands place nothing");
            let executed = self.ledger.execute(self.server.core.clock.now(), &[operation])?;
            match executed.into_iter().next() {
                Some(Executed::Refused(Refusal::SaleExists)) | Some(Executed::Accepted(_)) => {}
                Some(Executed::Refused(refusal)) => return Err(StartError::Refused(refusal)),
                Some(Executed::NeedsClaim(_)) | None => unreachable!("a sale is created or refused"),
            }
        }
        self.server.core.follow_sales(&mut self.ledger)?;
        self.server.core.operators.publish(&self.ledger.operators()?);
        Ok(())
    }

    /// Takes its turn at notifying the shop, at these endpoints.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn begin_webhooks(
        &mut self,
        endpoints: &[&str],
        duty: &Arc<Duty>,
        noticing: Option<Noticing>,
    ) -> Result<(), StartError> {
        self.ledger.know_endpoints(endpoints)?;
        self.webhooks = Some((Arc::clone(duty), noticing));
        Ok(())
    }

    /// Runs until the mailbox is closed and everything that was taken from it was answered. A stage that panics
    /// ends the server: the others can't do its work.
    pub(crate) fn run(self, stop: &Stop) {
        let Stages { server, ledger, webhooks } = self;
        let (core, ending) = (Arc::clone(&server.core), server.ending());
        let mut stages = server.stages();
        if let Some((duty, noticing)) = webhooks {
            let run = Box::new(move || webhooks::run(&core, &duty, ledger, noticing));
            stages.push(Stage { name: "webhooks".to_owned(), ends: Ends::Then, run });
        }
        thread::scope(|scope| {
            let started =
                stages.into_iter().map(|Stage { name, ends, run }| (ends, spawn(scope, stop, &name, run)));
            let (mut running, mut ended) = (started.collect::<Vec<_>>(), Vec::new());
            let mut join = |which: Ends| {
                let those = running.extract_if(.., |(ends, _)| *ends == which);
                ended.extend(those.map(|(_, stage)| stage.join()));
            };
            join(Ends::WithTheMailbox);
            ending.nothing_comes();
            join(Ends::WhenAllIsAnswered);
            ending.stop();
            join(Ends::Then);
            // Reported by the exit code, as of the book writer.
            if let Some(panic) = ended.into_iter().find_map(Result::err) {
                std::panic::resume_unwind(panic);
            }
        });
    }
}

/// Starts a stage; if it panics, the server ends.
fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    stop: &'scope Stop,
    name: &str,
    stage: impl FnOnce() + Send + 'scope,
) -> ScopedJoinHandle<'scope, ()> {
    let guarded = move || {
        let _guard = AbortOnPanic(stop);
        stage();
    };
    let started = thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, guarded);
    started.expect("the system starts threads while the server starts")
}

/// Where the queue is and how it is spoken to, for stages and for tools.
///
/// # Errors
/// If a file that is named can't be read or used.
pub fn queue_options(config: &Config, secrets: &Secrets) -> Result<queue::Options, StartError> {
    let queue = &config.queue;
    let read = |key, path: &Option<PathBuf>| read_file(key, path.as_ref()).map(Option::unwrap_or_default);
    let tls = if queue.tls {
        let authority = read("queue.tls_authority_file", &queue.tls_authority_file)?;
        let ours = match &queue.tls_certificate_file {
            None => None,
            certificate => Some((
                read("queue.tls_certificate_file", certificate)?,
                read("queue.tls_key_file", &queue.tls_key_file)?,
            )),
        };
        let ours = ours.as_ref().map(|(certificate, key)| (certificate.as_slice(), key.as_slice()));
        Some(queue::Tls::new(&authority, ours, &queue.tls_server_name)?)
    } else {
        None
    };
    let credentials = secrets.queue.clone().map(|secret_key| {
        let security_token = secrets.queue_token.clone();
        Arc::new(queue::Credentials { access_key: queue.access_key.clone(), secret_key, security_token })
    });
    Ok(queue::Options {
        name_servers: queue.name_servers.clone(),
        group: GROUP.to_owned(),
        send_timeout: queue.timeout(),
        security: queue::Security { credentials, tls },
    })
}

fn read_file(key: &'static str, path: Option<&PathBuf>) -> Result<Option<Vec<u8>>, StartError> {
    let read =
        |path: &PathBuf| std::fs::read(path).map_err(|error| StartError::File(key, path.clone(), error));
    path.map(read).transpose()
}

pub(super) fn gate_config(config: &Config, secrets: &Secrets) -> Result<GateConfig, StartError> {
    let gate = &config.gate;
    let tls = if gate.tls {
        let ca = read_file("gate.tls_authority_file", gate.tls_authority_file.as_ref())?;
        let certificate = read_file("gate.tls_certificate_file", gate.tls_certificate_file.as_ref())?;
        let key = read_file("gate.tls_key_file", gate.tls_key_file.as_ref())?;
        Some(GateTls { ca, client: certificate.zip(key) })
    } else {
        None
    };
    let text = |secret: &crate::secret::SecretBytes| String::from_utf8_lossy(secret.as_bytes()).into_owned();
    let user = |name: &String| (!name.is_empty()).then(|| name.clone());
    let layout = match gate.mode {
        GateMode::Single => Layout::Single,
        GateMode::Cluster => Layout::Cluster,
        GateMode::Sentinel => Layout::Sentinel(Sentinel {
            master: gate.sentinel_master.clone(),
            user: user(&gate.sentinel_user),
            password: secrets.sentinel.as_ref().map(text),
        }),
    };
    Ok(GateConfig {
        addresses: gate.addresses.clone(),
        layout,
        tls,
        user: user(&gate.user),
        password: secrets.gate.as_ref().map(text),
        key_prefix: gate.prefix.clone(),
        connect_timeout: GATE_CONNECT_TIMEOUT.min(gate.timeout()),
        idle_check: crate::gate::limits::IDLE_CHECK,
        reply_timeout: gate.timeout(),
        batch_commands_max: gate.batch_commands_max,
        cool_down: config.sale.cool_down(),
        dial: None,
        epochs: Arc::default(),
    })
}

/// Ends the server when a stage panics.
struct AbortOnPanic<'a>(&'a Stop);

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Sources};

    #[test]
    fn the_queue_is_spoken_to_as_it_is_configured() {
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
        let certificate = format!("{data}/localhost.cert.pem");
        let variables = [
            ("DOORBUSTER_QUEUE_ACCESS_KEY", "shop"),
            ("DOORBUSTER_QUEUE_SECRET_KEY", "hush"),
            ("DOORBUSTER_QUEUE_TLS", "true"),
            ("DOORBUSTER_QUEUE_TLS_AUTHORITY_FILE", &certificate),
            ("DOORBUSTER_QUEUE_TLS_CERTIFICATE_FILE", &certificate),
            ("DOORBUSTER_QUEUE_TLS_KEY_FILE", &format!("{data}/localhost.key.pem")),
            ("DOORBUSTER_GATE_TLS", "true"),
            ("DOORBUSTER_GATE_TLS_CERTIFICATE_FILE", &certificate),
            ("DOORBUSTER_GATE_TLS_KEY_FILE", &certificate),
        ];
        let environment = Environment::from_pairs(variables);
        let config = Sources::default().environment(&environment).load().unwrap();
        let secrets = Secrets::load_for_ledger(&config, &environment).unwrap();
        let security = queue_options(&config, &secrets).unwrap().security;
        assert_eq!(security.credentials.unwrap().access_key, "shop");
        assert!(security.tls.is_some());
        assert!(gate_config(&config, &secrets).unwrap().tls.unwrap().client.is_some());
        let variables = variables.map(|(name, value)| (name, value.trim_end_matches("key.pem")));
        let config = Sources::default().environment(&Environment::from_pairs(variables)).load().unwrap();
        let error = queue_options(&config, &secrets).unwrap_err().to_string();
        assert!(error.starts_with("queue.tls_key_file = "), "{error}");
        assert_eq!(queue_options(&Config::default(), &Secrets::default()).unwrap().name_servers.len(), 1);
    }
}
