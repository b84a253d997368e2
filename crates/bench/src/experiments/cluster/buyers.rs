//! Buyers who wait for their order: each places one, and asks for it until it is in the ledger.
//!
//! They see what a buyer sees, from the click to the broker's acknowledgement and to the ledger. There are few of
//! them, one after the other on a thread each, beside the driver's load, which does not wait for the ledger.

use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::drivers::http::once::{self, Answer};
use crate::drivers::http::traffic::{OWN_SALE, OwnOrders};
use crate::load::distribution::Durations;
use crate::load::record::micros;
use crate::target::TOKEN_SECRET;
use crate::target::token::Minter;

pub(super) const BUYERS: u64 = 16;
/// Between two orders of one buyer: all of them are a load of about 150 orders a second at most.
const PAUSE: Duration = Duration::from_millis(100);
/// How soon the end of the load ends a pause.
const PAUSE_STEP: Duration = Duration::from_millis(5);
/// Longer than any answer may take.
const TIMEOUT: Duration = Duration::from_secs(45);
/// How often a raised stop flag is looked for while an answer is awaited.
const STOP_POLL: Duration = Duration::from_millis(200);
/// Seconds that a server is asked to hold its answer back until the order is known; the longest that it allows.
const WAIT_S: u64 = 30;
/// A long poll is repeated so often before the order is given up.
const WAITS_MAX: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) placed: u64,
    pub(super) refused: u64,
    pub(super) first_refusal: Option<String>,
    /// From the click.
    pub(super) accepted: Durations,
    pub(super) persisted: Durations,
}

impl Seen {
    pub(super) fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        self.placed += other.placed;
        self.refused += other.refused;
        self.first_refusal = self.first_refusal.take().or_else(|| other.first_refusal.clone());
        self.accepted.add(&*other.accepted).context("histograms of one kind")?;
        self.persisted.add(&*other.persisted).context("histograms of one kind")?;
        Ok(())
    }
}

fn rest(over: &AtomicBool) {
    let begun = Instant::now();
    while begun.elapsed() < PAUSE && !over.load(Ordering::Relaxed) {
        std::thread::sleep(PAUSE_STEP);
    }
}

/// One buyer, who goes by a new number with each order.
pub(super) struct Buyer {
    stream: TcpStream,
    orders: OwnOrders,
    minter: Minter,
}

impl Buyer {
    pub(super) fn new(server: SocketAddr, buyer_first: u64) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(server).context("a buyer's connection")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(STOP_POLL))?;
        let orders = OwnOrders::new(TOKEN_SECRET, OWN_SALE, buyer_first);
        Ok(Self { stream, orders, minter: Minter::new(TOKEN_SECRET) })
    }

    /// Places orders until `over` is raised; `accepted` counts them with those of the driver. The last one is waited
    /// for, but not when `stop` is raised.
    pub(super) fn shop(
        mut self,
        accepted: &AtomicU64,
        over: &AtomicBool,
        stop: &AtomicBool,
    ) -> anyhow::Result<Seen> {
        let mut seen = Seen::default();
        while !over.load(Ordering::Relaxed) {
            let clicked = Instant::now();
            let request = self.orders.next().to_vec();
            let answer = self.exchange(&request, stop).context("a buyer's order")?;
            if !matches!(answer.status, 201 | 202) {
                seen.refused += 1;
                seen.first_refusal.get_or_insert_with(|| answer.text());
                rest(over);
                continue;
            }
            accepted.fetch_add(1, Ordering::Relaxed);
            seen.placed += 1;
            seen.accepted.saturating_record(micros(Instant::now(), clicked));
            self.wait(&answer, stop)?;
            seen.persisted.saturating_record(micros(Instant::now(), clicked));
            rest(over);
        }
        Ok(seen)
    }

    /// Until the order is in the ledger.
    fn wait(&mut self, placed: &Answer, stop: &AtomicBool) -> anyhow::Result<()> {
        let order: Value = serde_json::from_slice(&placed.body).context("an order as JSON")?;
        let id = order["id"].as_str().with_context(|| format!("an order's id in {order}"))?.to_owned();
        let mut status = order["status"].as_str().unwrap_or_default().to_owned();
        let mut request =
            format!("GET /api/v1/orders/{id}?wait={WAIT_S} HTTP/1.1\r\nHost: localhost\r\n").into_bytes();
        request.extend_from_slice(b"Authorization: Bearer ");
        self.minter.append(self.orders.buyer, &mut request);
        request.extend_from_slice(b"\r\n\r\n");
        for _ in 0..WAITS_MAX {
            match status.as_str() {
                "held" | "paid" => return Ok(()),
                "pending" => {}
                _ => bail!("AUDIT FAILED: the accepted order {id} became {status}"),
            }
            let answer = self.exchange(&request, stop).context("asking for an order")?;
            ensure!(
                answer.status == 200,
                "AUDIT FAILED: the accepted order {id} is not found: {}",
                answer.text()
            );
            let order: Value = serde_json::from_slice(&answer.body).context("an order as JSON")?;
            status = order["status"].as_str().unwrap_or_default().to_owned();
        }
        bail!("the accepted order {id} is not in the ledger after {} s", WAIT_S * WAITS_MAX as u64)
    }

    fn exchange(&mut self, request: &[u8], stop: &AtomicBool) -> anyhow::Result<Answer> {
        let asked = Instant::now();
        self.stream.write_all(request)?;
        let answer = once::answer(&mut self.stream, |error| match error.kind() {
            _ if stop.load(Ordering::Relaxed) => Err(io::Error::other("stopped by a signal")),
            // A long poll is answered late, and a stop is to be seen meanwhile.
            ErrorKind::WouldBlock if asked.elapsed() < TIMEOUT => Ok(()),
            _ => Err(error),
        });
        Ok(answer?)
    }
}
