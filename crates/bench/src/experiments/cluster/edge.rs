//! The edge's stock and product pages, beside nginx serving a static file of the same size.
//!
//! One worker each, the same requests but for the path, in turn. Twice: with the cache of 100 ms, and without any.

use anyhow::{Context, ensure};

use super::Stack;
use crate::drivers::http::once;
use crate::drivers::http::traffic::{OWN_PRODUCT, OWN_SALE, Traffic};
use crate::experiments::ScenarioContext;
use crate::experiments::beside::{self, Bounds, Comparison, Probe, THROUGHPUT_BESIDE_NGINX};
use crate::experiments::cases::Run;
use crate::goal::Goal;
use crate::host::procfs;
use crate::host::usage::Watched;
use crate::load::record::Outcome;
use crate::load::schedule::Schedule;
use crate::report::model::ScenarioReport;
use crate::target::engines::BrokerFlush;
use crate::target::installation::cluster::PREFIX;
use crate::target::nginx::Nginx;

const CONNECTIONS: usize = 100;
/// The worker, as it is watched beside the engines.
const WORKER: &str = "edge";

/// One case: which page, how long the edge keeps what it read, and the least that we expect beside nginx.
#[derive(Debug, Clone, Copy)]
struct Row {
    name: &'static str,
    page: Page,
    cache_ms: u64,
    bounds: Bounds,
}

#[derive(Debug, Clone, Copy)]
enum Page {
    Stock,
    Product,
}

const CACHED: Bounds = &[(THROUGHPUT_BESIDE_NGINX, Goal::AtLeast(0.6))];
const READ: Bounds = &[(THROUGHPUT_BESIDE_NGINX, Goal::AtLeast(0.3))];

/// In the order of a repeat: the edge is started twice.
const ROWS: [Row; 4] = [
    Row { name: "stock, cache 100 ms", page: Page::Stock, cache_ms: 100, bounds: CACHED },
    Row { name: "product page, cache 100 ms", page: Page::Product, cache_ms: 100, bounds: CACHED },
    Row { name: "stock, no cache", page: Page::Stock, cache_ms: 0, bounds: READ },
    Row { name: "product page, no cache", page: Page::Product, cache_ms: 0, bounds: READ },
];

impl Page {
    /// Of the page, and of the static file of the same size.
    fn paths(self) -> (String, &'static str) {
        match self {
            Self::Stock => (format!("/cache/stock?productId={OWN_PRODUCT}"), "stock.html"),
            Self::Product => {
                let of =
                    format!("flashPromotionId={OWN_SALE}&promotionProductId={OWN_PRODUCT}&memberId=462245");
                (format!("/product?{of}"), "product.html")
            }
        }
    }
}

pub(super) fn run(context: &ScenarioContext) -> anyhow::Result<ScenarioReport> {
    context.ensure_spawned()?;
    let mut run = Run::new(context, "Pages of the edge beside nginx with a file of the same size");
    let mut rows: Vec<(Row, Comparison)> = ROWS
        .into_iter()
        .filter(|row| context.wants(row.name))
        .map(|row| (row, Comparison::new(row.name.to_owned(), WORKER, Outcome::Served)))
        .collect();
    if rows.is_empty() {
        return Ok(run.report);
    }
    let mut stack = Stack::open(context, 0, BrokerFlush::Asynchronous)?;
    for repeat in 1..=context.repeats {
        for of_cache in rows.chunk_by_mut(|(a, _), (b, _)| a.cache_ms == b.cache_ms) {
            let (cache_ms, servers) = (of_cache[0].0.cache_ms, stack.shop.addresses());
            stack.set.up_edge(&servers, PREFIX, cache_ms, None, &context.stop)?;
            for (row, comparison) in of_cache {
                measure(context, &stack, repeat, *row, comparison)?;
            }
            // The replica too: the next edge brings its own along.
            stack.set.down(&["nginx", "redis-edge"])?;
        }
    }
    run.report.engines = stack.settings()?;
    stack.shop.close()?;
    run.note(
        "One worker each, the same requests but for the path, in turn; which comes first changes from repeat to repeat.",
    );
    Ok(beside::report(run, rows.iter().map(|(row, comparison)| (comparison, row.bounds))))
}

fn measure(
    context: &ScenarioContext,
    stack: &Stack,
    repeat: usize,
    row: Row,
    comparison: &mut Comparison,
) -> anyhow::Result<()> {
    let address = stack.set.address("nginx")?;
    let (path, name) = row.page.paths();
    let shown = once::exchange(address, &once::encode("GET", &path, &[], &[])).context("the edge's page")?;
    ensure!(shown.status == 200, "the edge answers {path} with {}", shown.text());
    let nginx_folder = tempfile::Builder::new().prefix("nginx-").tempdir_in(&context.folder)?;
    let nginx = Nginx::start(nginx_folder.path())?;
    nginx.serve_file(name, &shown.body, None)?;
    let mut watched = vec![
        Watched::new(WORKER, worker_of(stack.set.watched("nginx")?.pid)?),
        Watched::new("nginx", nginx.pid()),
    ];
    watched.extend(stack.shop.watched());
    watched.extend(stack.set.all_watched().into_iter().filter(|of| of.name != "nginx"));
    let around = context.around(&watched, true);
    let probe = Probe {
        address,
        connections: CONNECTIONS,
        warm_up: super::warm_up(context),
        schedule: Schedule::closed(super::window(context)),
        wanted: Outcome::Served,
        repeat,
    };
    let of_file = Probe { address: nginx.address, ..probe };
    let mut page = Traffic::read(&path, &[], Some(&shown.body));
    let mut file = Traffic::read(&format!("/{name}"), &[], Some(&shown.body));
    comparison.measure(
        context,
        repeat,
        || beside::sample(probe, &mut page, around, |_| Ok(())),
        || beside::sample(of_file, &mut file, around, |_| Ok(())),
    )
}

/// nginx's master process does nothing; its one worker does.
fn worker_of(master: u32) -> anyhow::Result<u32> {
    let workers = procfs::children(master)?;
    ensure!(workers.len() == 1, "the edge has {} workers, not one", workers.len());
    Ok(workers[0])
}
