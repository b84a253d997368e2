//! The gates of a cluster's products: all open before anything is measured, and the same ones after it.
//!
//! A server is ready before it has built the gates of its products, and answers `busy` until then; that is no figure of
//! anything. A gate that is lost while a load runs is rebuilt from the ledger, and breaks no invariant; but what was
//! measured meanwhile is no result either. A server without gates has nothing to wait for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::drivers::http::once;
use crate::progress::Progress;

/// Without another gate opened.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// The gates as they were when all of them were open.
#[derive(Debug)]
pub struct Gates {
    server: SocketAddr,
    operator_token: String,
    stop: Arc<AtomicBool>,
    progress: Option<Progress>,
    /// How often the server had built one; `None`: it has no gates.
    built: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    open: u64,
    built: u64,
}

impl Gates {
    /// Waits until every product in the ledger has an open gate.
    ///
    /// # Errors
    /// If none opens for a minute, the server does not say, or the stop flag is raised.
    pub fn opened(
        server: SocketAddr,
        operator_token: &str,
        stop: &Arc<AtomicBool>,
        progress: Option<&Progress>,
    ) -> anyhow::Result<Self> {
        let (operator_token, stop) = (operator_token.to_owned(), Arc::clone(stop));
        let mut gates = Self { server, operator_token, stop, progress: progress.cloned(), built: None };
        gates.built = gates.wait()?.map(|seen| seen.built);
        Ok(gates)
    }

    /// After the measurement: all are open, and none was rebuilt since.
    ///
    /// # Errors
    /// If it is otherwise. That is no failed audit.
    pub fn check(&self) -> anyhow::Result<()> {
        let Some(before) = self.built else { return Ok(()) };
        let now = self.wait()?.context("the server had gates, and reports none now")?.built;
        ensure!(
            now == before,
            "gates were lost while it was measured, and {} were rebuilt from the ledger: what was measured is no \
             result, though no order is missing",
            now.saturating_sub(before)
        );
        Ok(())
    }

    fn wait(&self) -> anyhow::Result<Option<Seen>> {
        let Some(mut seen) = self.look()? else { return Ok(None) };
        let audit: Value = serde_json::from_str(&self.ask("/api/v1/audit")?).context("the audit as JSON")?;
        let products = audit["skus"].as_array().context("an audit lists the SKUs")?.len() as u64;
        let (mut most, mut grown) = (seen.open, Instant::now());
        while seen.open < products {
            ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
            let state = format!("the gates of {} of {products} products are open", seen.open);
            ensure!(grown.elapsed() < PATIENCE, "{state}, and no more open: nothing can be measured");
            if let Some(progress) = &self.progress {
                progress.waiting(&state);
            }
            std::thread::sleep(POLL);
            seen = self.look()?.context("the server reports no gates any more")?;
            if seen.open > most {
                (most, grown) = (seen.open, Instant::now());
            }
        }
        Ok(Some(seen))
    }

    fn look(&self) -> anyhow::Result<Option<Seen>> {
        let metrics = self.ask("/metrics")?;
        let value = |name: &str| {
            let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.map(|value| value.parse::<u64>().with_context(|| format!("{name} {value}"))).transpose()
        };
        let (open, built) = (value("doorbuster_gates_open")?, value("doorbuster_gates_built_total")?);
        Ok(open.zip(built).map(|(open, built)| Seen { open, built }))
    }

    fn ask(&self, path: &str) -> anyhow::Result<String> {
        let request = once::operating(&self.operator_token, "GET", path, &[]);
        let answer = once::exchange(self.server, &request)
            .with_context(|| format!("asking {} for {path}", self.server))?;
        ensure!(answer.status == 200, "asking {} for {path}: {}", self.server, answer.text());
        String::from_utf8(answer.body).with_context(|| format!("{path} as text"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::AUDIT_FAILED;
    use crate::audit::running::tests::answering;

    const TWO_PRODUCTS: &str = r#"{"skus":[{},{}]}"#;

    fn metrics(open: u64, built: u64) -> String {
        format!("# HELP x\ndoorbuster_gates_built_total {built}\ndoorbuster_gates_open {open}\n# EOF\n")
    }

    fn opened(bodies: &[String], stop: bool) -> (anyhow::Result<Gates>, Vec<String>) {
        let (server, asked) = answering(bodies.to_vec());
        let gates = Gates::opened(server, "secret", &Arc::new(AtomicBool::new(stop)), None);
        // Those of `bodies` that were not fetched would be waited for for ever.
        (gates, asked.join().unwrap())
    }

    #[test]
    fn nothing_begins_before_every_gate_is_open() {
        let bodies = [metrics(0, 0), TWO_PRODUCTS.to_owned(), metrics(1, 1), metrics(2, 2)];
        let (gates, asked) = opened(&bodies, false);
        assert_eq!(gates.unwrap().built, Some(2));
        assert!(asked[1].starts_with("GET /api/v1/audit ") && asked[3].contains("Bearer secret\r\n"));
    }

    #[test]
    fn a_server_without_gates_is_not_waited_for() {
        let (gates, _asked) = opened(&["doorbuster_ready 1\n# EOF\n".to_owned()], false);
        let gates = gates.unwrap();
        assert_eq!(gates.built, None);
        gates.check().unwrap();
    }

    #[test]
    fn a_signal_ends_the_wait() {
        let (gates, _asked) = opened(&[metrics(1, 1), TWO_PRODUCTS.to_owned()], true);
        assert_eq!(gates.unwrap_err().to_string(), "stopped by a signal");
    }

    #[test]
    fn a_gate_that_was_rebuilt_meanwhile_is_reported_and_is_no_failed_audit() {
        for (after, clean) in [(2, true), (3, false)] {
            let all_open = [metrics(2, 2), TWO_PRODUCTS.to_owned()];
            let then = [metrics(2, after), TWO_PRODUCTS.to_owned()];
            let (server, _asked) = answering([all_open, then].concat());
            let gates = Gates::opened(server, "secret", &Arc::default(), None).unwrap();
            let error = gates.check().err().map(|error| error.to_string());
            assert_eq!(error.is_none(), clean, "{error:?}");
            let error = error.unwrap_or_else(|| "1 were rebuilt".to_owned());
            assert!(error.contains("1 were rebuilt") && !error.contains(AUDIT_FAILED), "{error}");
        }
    }
}
