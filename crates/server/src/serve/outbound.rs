//! Whom the server speaks with beside buyers and operators: the shop's endpoints, and the beacon of draws.
//!
//! Must not: decide what is sent, or what a beacon's value means.

use std::io;
use std::sync::Arc;

use super::{Profile, ServeError, System};
use crate::beacon::Listening;
use crate::config::{Config, Secrets};
use crate::embedded::PrepareError;
use crate::intake::{Intake, Mailbox};
use crate::webhooks::{Endpoint, Noticing, Sender, Surroundings};

/// One for each endpoint of the shop, and one for what else follows the ledger.
pub(super) fn senders(
    config: &Config,
    secrets: &Secrets,
    following: Option<Endpoint>,
    profile: &mut Profile,
    shared: Surroundings,
) -> Result<Vec<Sender>, ServeError> {
    let endpoints: Vec<&Endpoint> = secrets.webhooks.iter().chain(&following).collect();
    if endpoints.is_empty() {
        return Ok(Vec::new());
    }
    let source = config.ledger_source(secrets);
    let noticing = match secrets.webhooks.is_empty() {
        true => None,
        false => Some(Noticing::new(source.event_reader()?)),
    };
    match profile {
        Profile::Embedded(writer) => writer.begin_webhooks(&shared.duty, noticing),
        Profile::Cluster(stages) => {
            let names: Vec<_> = endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
            stages.begin_webhooks(&names, &shared.duty, noticing)?;
        }
    }
    let sender = |(place, endpoint): (usize, &&Endpoint)| {
        Sender::new((*endpoint).clone(), place, source.event_reader()?, shared.clone())
    };
    let senders = endpoints.iter().enumerate().map(sender).collect::<Result<_, _>>()?;
    // Where a new endpoint begins is known before anything happens that it is to hear of; on a full disk nothing does.
    if let Profile::Embedded(writer) = profile {
        match writer.store_progress() {
            Err(error) if !error.is_retryable() => return Err(PrepareError::from(error).into()),
            Err(error) => {
                tracing::warn!(%error, "how far the shop's endpoints have come could not be stored; tried again");
            }
            Ok(()) => {}
        }
    }
    Ok(senders)
}

/// What hears the beacon, if there is one, and says which lines wait for another.
pub(super) fn listen(
    secrets: &Secrets,
    intake: &Intake,
    mailbox: &Arc<Mailbox>,
    system: System,
) -> io::Result<Listening> {
    Listening::start(secrets.beacon.clone(), intake.clone(), mailbox.asker(), system.thread)
}
