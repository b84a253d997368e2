//! The edge's stock and product pages, beside nginx serving a static file of the same size.
//!
//! One worker each, the same requests but for the path, in turn. Twice: with the cache of 100 ms, and without any.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use super::shop::{PREFIX, Shop};
use crate::drivers::http::once;
use crate::embedded::measure::{self, Probe, Sample};
use crate::engines::EngineSet;
use crate::goal::Goal;
use crate::load::record::Outcome;
use crate::load::schedule::Schedule;
use crate::nginx::Nginx;
use crate::procfs;
use crate::traffic::{OWN_PRODUCT, OWN_SALE, Traffic};
use crate::usage::{Snapshot, Usage, Watched};

pub(super) const CONNECTIONS: usize = 100;
const CACHE_MS: u64 = 100;
/// No client of ours may be limited: all of them share one address.
const PER_CLIENT: &str = "1000000";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgePage {
    Stock,
    Product,
}

/// One page in one round, at the edge and as a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EdgeSample {
    pub page: EdgePage,
    pub cache_ms: u64,
    pub body_bytes: usize,
    pub edge: Sample,
    pub file: Sample,
    /// Of the machine while the edge was asked.
    pub usage: Usage,
}

impl EdgePage {
    const ALL: [Self; 2] = [Self::Stock, Self::Product];

    fn path(self) -> String {
        match self {
            Self::Stock => format!("/cache/stock?productId={OWN_PRODUCT}"),
            Self::Product => format!(
                "/product?flashPromotionId={OWN_SALE}&promotionProductId={OWN_PRODUCT}&memberId=462245"
            ),
        }
    }

    /// The static file of the same size.
    fn file(self) -> &'static str {
        match self {
            Self::Stock => "stock.html",
            Self::Product => "product.html",
        }
    }

    pub(super) fn name(self, cache_ms: u64) -> String {
        let page = match self {
            Self::Stock => "stock",
            Self::Product => "product page",
        };
        if cache_ms == 0 {
            format!("edge, {page}, no cache")
        } else {
            format!("edge, {page}, cache {cache_ms} ms")
        }
    }
}

/// Of the edge's rate over the file's.
pub(super) fn goal(cache_ms: u64) -> Goal {
    Goal::AtLeast(if cache_ms == 0 { 0.3 } else { 0.6 })
}

/// What this measurement is given.
pub(super) struct EdgeContext<'a> {
    pub(super) set: &'a mut EngineSet,
    pub(super) shop: &'a mut Shop,
    pub(super) beside: &'a [Watched],
    pub(super) disk: Option<&'a str>,
    pub(super) window: Duration,
    pub(super) warm_up: Duration,
    pub(super) stop: &'a AtomicBool,
}

/// All pages, with the cache and without; which side comes first changes from round to round.
pub(super) fn sample(
    context: &mut EdgeContext<'_>,
    folder: &Path,
    round: usize,
) -> anyhow::Result<Vec<EdgeSample>> {
    let mut samples = Vec::new();
    for cache_ms in [CACHE_MS, 0] {
        start_edge(context, cache_ms)?;
        for page in EdgePage::ALL {
            samples.push(sample_page(context, folder, page, cache_ms, round % 2 == 1)?);
        }
        // The replica too: it costs its master something at each order of the next part.
        context.set.down(&["nginx", "redis-edge"])?;
    }
    Ok(samples)
}

fn start_edge(context: &mut EdgeContext<'_>, cache_ms: u64) -> anyhow::Result<()> {
    let servers: Vec<String> = context.shop.addresses().iter().map(ToString::to_string).collect();
    let environment = [
        ("EDGE_CACHE_MS", cache_ms.to_string()),
        ("EDGE_SERVERS", servers.join(" ")),
        ("EDGE_WORKERS", "1".to_owned()),
        ("EDGE_REDIS_PREFIX", PREFIX.to_owned()),
        ("EDGE_POSTS_PER_S_PER_CLIENT", PER_CLIENT.to_owned()),
        ("EDGE_POSTS_BURST_PER_CLIENT", PER_CLIENT.to_owned()),
        ("EDGE_REQUESTS_PER_S_PER_CLIENT", PER_CLIENT.to_owned()),
        ("EDGE_REQUESTS_BURST_PER_CLIENT", PER_CLIENT.to_owned()),
    ];
    // It brings the replica along.
    context.set.up(&["nginx"], &environment, context.stop).context("starting the edge")
}

fn sample_page(
    context: &EdgeContext<'_>,
    folder: &Path,
    page: EdgePage,
    cache_ms: u64,
    edge_first: bool,
) -> anyhow::Result<EdgeSample> {
    let address = context.set.address("nginx")?;
    let path = page.path();
    let shown = once::exchange(address, &once::encode("GET", &path, &[], &[])).context("the edge's page")?;
    ensure!(shown.status == 200, "the edge answers {path} with {}", shown.text());
    let body_bytes = shown.body.len();
    let nginx_folder = tempfile::Builder::new().prefix("nginx-").tempdir_in(folder)?;
    let nginx = Nginx::start(nginx_folder.path())?;
    nginx.serve_file(page.file(), &shown.body, None)?;
    let worker = worker_of(context.set.watched("nginx")?.pid)?;
    let edge = |usage: &mut Option<Usage>| -> anyhow::Result<Sample> {
        let mut watched = vec![Watched::new("edge", worker), Watched::load()];
        watched.extend(context.shop.watched());
        watched.extend(context.set.all_watched());
        watched.extend_from_slice(context.beside);
        let before = Snapshot::take(&watched, context.disk)?;
        let mut traffic = Traffic::read(&path, &[], Some(&shown.body));
        let sample = measure::sample(probe(context, address, worker), &mut traffic, context.stop, |_| ());
        *usage = Some(before.until(&Snapshot::take(&watched, context.disk)?));
        sample.with_context(|| page.name(cache_ms))
    };
    let file = || -> anyhow::Result<Sample> {
        let mut traffic = Traffic::read(&format!("/{}", page.file()), &[], Some(&shown.body));
        measure::sample(probe(context, nginx.address(), nginx.pid()), &mut traffic, context.stop, |_| ())
            .with_context(|| format!("{}, the file", page.name(cache_ms)))
    };
    let mut usage = None;
    let (edge, file) = if edge_first {
        (edge(&mut usage)?, file()?)
    } else {
        let file = file()?;
        (edge(&mut usage)?, file)
    };
    let usage = usage.context("the edge was measured")?;
    Ok(EdgeSample { page, cache_ms, body_bytes, edge, file, usage })
}

fn probe(context: &EdgeContext<'_>, address: std::net::SocketAddr, pid: u32) -> Probe {
    Probe {
        address,
        pid,
        connections: CONNECTIONS,
        warm_up: context.warm_up,
        schedule: Schedule::closed(context.window),
        wanted: Outcome::Served,
    }
}

/// nginx's master process does nothing; its one worker does.
fn worker_of(master: u32) -> anyhow::Result<u32> {
    let workers = procfs::children(master)?;
    ensure!(workers.len() == 1, "the edge has {} workers, not one", workers.len());
    Ok(workers[0])
}
