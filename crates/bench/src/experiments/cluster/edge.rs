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
const CACHE_MS: u64 = 100;
/// The worker, as it is watched beside the engines.
const WORKER: &str = "edge";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    Stock,
    Product,
}

/// One case: which page, and how long the edge keeps what it read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    page: Page,
    cache_ms: u64,
}

/// In the order of a repeat: the edge is started twice.
const ROWS: [Row; 4] = [
    Row { page: Page::Stock, cache_ms: CACHE_MS },
    Row { page: Page::Product, cache_ms: CACHE_MS },
    Row { page: Page::Stock, cache_ms: 0 },
    Row { page: Page::Product, cache_ms: 0 },
];

impl Page {
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
}

impl Row {
    fn name(self) -> String {
        let page = match self.page {
            Page::Stock => "stock",
            Page::Product => "product page",
        };
        match self.cache_ms {
            0 => format!("{page}, no cache"),
            ms => format!("{page}, cache {ms} ms"),
        }
    }

    fn bounds(self) -> Bounds {
        match self.cache_ms {
            0 => &[(THROUGHPUT_BESIDE_NGINX, Goal::AtLeast(0.3))],
            _ => &[(THROUGHPUT_BESIDE_NGINX, Goal::AtLeast(0.6))],
        }
    }
}

pub(super) fn run(context: &ScenarioContext) -> anyhow::Result<ScenarioReport> {
    super::ensure_spawned(context)?;
    let mut run = Run::new(context, "Pages of the edge beside nginx with a file of the same size");
    let mut rows: Vec<(Row, Comparison)> = ROWS
        .into_iter()
        .filter(|row| context.wants(&row.name()))
        .map(|row| (row, Comparison::new(row.name(), WORKER, Outcome::Served)))
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
    Ok(beside::report(run, rows.iter().map(|(row, comparison)| (comparison, row.bounds()))))
}

fn measure(
    context: &ScenarioContext,
    stack: &Stack,
    repeat: usize,
    row: Row,
    comparison: &mut Comparison,
) -> anyhow::Result<()> {
    let address = stack.set.address("nginx")?;
    let path = row.page.path();
    let shown = once::exchange(address, &once::encode("GET", &path, &[], &[])).context("the edge's page")?;
    ensure!(shown.status == 200, "the edge answers {path} with {}", shown.text());
    let nginx_folder = tempfile::Builder::new().prefix("nginx-").tempdir_in(&context.folder)?;
    let nginx = Nginx::start(nginx_folder.path())?;
    nginx.serve_file(row.page.file(), &shown.body, None)?;
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
    let of_file = Probe { address: nginx.address(), ..probe };
    let mut page = Traffic::read(&path, &[], Some(&shown.body));
    let mut file = Traffic::read(&format!("/{}", row.page.file()), &[], Some(&shown.body));
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
