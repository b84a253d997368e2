//! What a running server says of its own ledger, by `GET /api/v1/audit`: the only audit of a server that is not ours.
//!
//! Asked before the first order and after the last one. Without the operator's token it can't be asked for, so then no
//! order may be placed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::Answered;
use super::invariants::STILL;
use crate::audit::AUDIT_FAILED;
use crate::drivers::http::once;
use crate::progress::Progress;
use crate::report::model::Audit;

/// Of many broken invariants.
const BROKEN_SHOWN: usize = 20;
const DRAIN_POLL: Duration = Duration::from_millis(20);

/// A server's audit before anybody ordered.
#[derive(Debug, Clone)]
pub struct Running {
    server: SocketAddr,
    operator_token: String,
    orders_before: u64,
    stop: Arc<AtomicBool>,
    progress: Option<Progress>,
    /// How long the ledger may stand still while orders are missing.
    still: Duration,
}

impl Running {
    /// To be called before the first order.
    ///
    /// # Errors
    /// Without a token; if the server does not say; `AUDIT FAILED` if the ledger is broken already.
    pub fn open(
        server: SocketAddr,
        operator_token: Option<&str>,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        let operator_token = operator_token.context(
            "no order is placed at a running server whose audit can't be asked for: set DOORBUSTER_OPERATOR_TOKEN to \
             its operator's token",
        )?;
        let (operator_token, stop) = (operator_token.to_owned(), Arc::clone(stop));
        let mut audit = Self { server, operator_token, orders_before: 0, stop, progress: None, still: STILL };
        audit.orders_before = clean_orders(&audit.ask()?)?;
        Ok(audit)
    }

    /// While the ledger is waited for, it is shown there how far that is.
    pub fn reporting_to(self, progress: &Progress) -> Self {
        Self { progress: Some(progress.clone()), ..self }
    }

    fn ask(&self) -> anyhow::Result<Value> {
        let request = once::operating(&self.operator_token, "GET", "/api/v1/audit", &[]);
        let answer = once::exchange(self.server, &request).context("asking for the audit")?;
        ensure!(answer.status == 200, "asking for the audit: {}", answer.text());
        serde_json::from_slice(&answer.body).context("the audit as JSON")
    }

    /// The audit once the ledger has every accepted order, stands still without it, or is broken: no wait mends that.
    pub fn drain(&self, answered: Answered) -> anyhow::Result<Value> {
        let (mut most, mut grown) = (0, Instant::now());
        loop {
            let numbers = self.ask()?;
            let orders = numbers["orders"].as_u64().context("the audit's count of orders")?;
            if orders > most {
                (most, grown) = (orders, Instant::now());
            }
            let whole = orders >= self.orders_before + answered.accepted;
            if whole || !is_clean(&numbers) || grown.elapsed() >= self.still {
                return Ok(numbers);
            }
            if let Some(progress) = &self.progress {
                let new = orders.saturating_sub(self.orders_before);
                progress.waiting(&format!("the ledger has {new} of {} orders", answered.accepted));
            }
            ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
            std::thread::sleep(DRAIN_POLL);
        }
    }

    /// From outside only sums can be had: its own audit, and that it has as many orders more as were acknowledged.
    ///
    /// # Errors
    /// `AUDIT FAILED`, and why.
    pub fn judge(&self, numbers: &Value, answered: Answered, method: &str) -> anyhow::Result<Audit> {
        let now = clean_orders(numbers)?;
        let orders = now.checked_sub(self.orders_before).with_context(|| {
            format!("{AUDIT_FAILED}: the ledger had {} orders before, and has {now}", self.orders_before)
        })?;
        answered.check(orders)?;
        let skus = numbers["skus"].as_array().context("the audit's products")?;
        let sum = |name: &str| -> u64 { skus.iter().filter_map(|sku| sku[name].as_u64()).sum() };
        let audit = Audit {
            initial_units: sum("total"),
            remaining_units: sum("available"),
            held_units: sum("held"),
            sold_units: sum("sold"),
            accepted: answered.accepted,
            unknown: answered.unknown,
            orders,
            method: method.to_owned(),
        };
        match audit.broken() {
            None => Ok(audit),
            Some(why) => anyhow::bail!("{AUDIT_FAILED}: {why}"),
        }
    }

    /// The gate of every figure from a server that is not ours.
    pub fn close(&self, answered: Answered) -> anyhow::Result<Audit> {
        let method =
            "the server's own audit, and its count of orders before and after: nobody else may have ordered";
        self.judge(&self.drain(answered)?, answered, method)
    }
}

fn is_clean(numbers: &Value) -> bool {
    numbers["clean"] == true && numbers["complete"] == true
}

/// What is broken, in words; of many, the first ones.
fn broken(numbers: &Value) -> String {
    let all = numbers["broken"].as_array().map_or(&[][..], Vec::as_slice);
    let mut lines: Vec<String> = all
        .iter()
        .take(BROKEN_SHOWN)
        .map(|line| line.as_str().map_or_else(|| line.to_string(), str::to_owned))
        .collect();
    if all.len() > BROKEN_SHOWN {
        lines.push(format!("and {} more", all.len() - BROKEN_SHOWN));
    }
    if lines.is_empty() { "it does not say why".to_owned() } else { lines.join("; ") }
}

/// Its orders, if every invariant holds.
fn clean_orders(numbers: &Value) -> anyhow::Result<u64> {
    ensure!(is_clean(numbers), "{AUDIT_FAILED}: the server's own audit is not clean: {}", broken(numbers));
    numbers["orders"].as_u64().context("the audit's count of orders")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use serde_json::json;

    use super::*;

    /// Answers that many connections with this body each, and gives the requests.
    pub(crate) fn answering(bodies: Vec<String>) -> (SocketAddr, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serve = move |body: String| {
            let (mut stream, _from) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
                let count = stream.read(&mut buffer).unwrap();
                request.extend_from_slice(&buffer[..count]);
            }
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).unwrap();
            String::from_utf8(request).unwrap()
        };
        (address, std::thread::spawn(move || bodies.into_iter().map(serve).collect()))
    }

    fn numbers(orders: u64, available: u64, clean: bool) -> Value {
        json!({
            "clean": clean, "complete": true, "orders": orders, "broken": [],
            "skus": [{ "total": 100, "available": available, "held": 100 - available.min(100), "sold": 0 }],
        })
    }

    #[test]
    fn without_a_token_nothing_is_asked_and_nothing_ordered() {
        // Nobody listens there: a request would be another error.
        let error = Running::open(SocketAddr::from(([127, 0, 0, 1], 9)), None, &Arc::default()).unwrap_err();
        assert!(error.to_string().contains("set DOORBUSTER_OPERATOR_TOKEN"), "{error}");
    }

    #[test]
    fn the_orders_of_others_before_are_not_counted() {
        let audits = [numbers(7, 93, true), numbers(11, 89, true), numbers(12, 88, true)];
        let (server, requests) = answering(audits.iter().map(Value::to_string).collect());
        let audit = Running::open(server, Some("secret"), &Arc::default()).unwrap();
        // The queue had one more for the ledger.
        let closed = audit.close(Answered { accepted: 5, unknown: 1 }).unwrap();
        assert_eq!((closed.orders, closed.held_units, closed.remaining_units), (5, 12, 88));
        let requests = requests.join().unwrap();
        assert!(requests.iter().all(|request| request.contains("Authorization: Bearer secret\r\n")));
    }

    #[test]
    fn a_signal_ends_the_wait_for_the_queue() {
        let (server, _requests) = answering(vec![numbers(7, 93, true).to_string(); 2]);
        let stop = Arc::new(AtomicBool::new(false));
        let audit = Running::open(server, Some("secret"), &stop).unwrap();
        stop.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        let error = audit.drain(Answered { accepted: 1, unknown: 0 }).unwrap_err();
        assert!(error.to_string() == "stopped by a signal" && begun.elapsed() < STILL / 3, "{error}");
    }

    #[test]
    fn a_ledger_that_is_broken_or_stands_still_is_not_waited_for() {
        // The third has a gap, and the fourth grows no more: each is the last that is asked for.
        for (then, still, why) in [
            (vec![numbers(8, 92, true), numbers(9, 91, false)], STILL, "not clean: a gap; and 1 more"),
            (vec![numbers(9, 91, true)], Duration::ZERO, "must hold 5 to 6"),
        ] {
            let mut audits = vec![numbers(7, 93, true)];
            audits.extend(then);
            let gaps: Vec<_> = std::iter::repeat_n("a gap", 21).collect();
            audits.last_mut().unwrap()["broken"] = json!(gaps);
            let count = audits.len();
            let (server, requests) = answering(audits.iter().map(Value::to_string).collect());
            let audit = Running::open(server, Some("secret"), &Arc::default()).unwrap();
            let error = Running { still, ..audit }.close(Answered { accepted: 5, unknown: 1 }).unwrap_err();
            let error = error.to_string().replace(&"a gap; ".repeat(20), "a gap; ");
            assert!(error.contains(AUDIT_FAILED) && error.contains(why), "{error}");
            assert_eq!(requests.join().unwrap().len(), count);
        }
    }

    #[test]
    fn whatever_is_wrong_is_a_failed_audit() {
        let (server, _requests) = answering(vec![numbers(7, 93, true).to_string()]);
        let audit = Running::open(server, Some("secret"), &Arc::default()).unwrap();
        let answered = Answered { accepted: 5, unknown: 1 };
        for (numbers, why) in [
            (numbers(12, 88, false), "not clean"),
            (numbers(11, 89, true), "must hold 5 to 6"),
            (numbers(14, 86, true), "must hold 5 to 6"),
            // Fewer than before.
            (numbers(6, 94, true), "had 7 orders before, and has 6"),
            (numbers(12, 101, true), "100 units at first became 101 remaining"),
        ] {
            let error = format!("{:#}", audit.judge(&numbers, answered, "").unwrap_err());
            assert!(error.contains(AUDIT_FAILED) && error.contains(why), "{error}");
        }
        let (server, _requests) = answering(vec![numbers(7, 93, false).to_string()]);
        assert!(
            Running::open(server, Some("secret"), &Arc::default())
                .unwrap_err()
                .to_string()
                .contains(AUDIT_FAILED)
        );
    }
}
