//! What operators and their tools ask: health, metrics, the audit, the clock; and the API's description.

use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

use engine::{Action, LineView, Role, Standings, format_utc};
use serde::Deserialize;

use crate::chores;
use crate::figures::HostFigures;
use crate::http::HttpService;
use crate::http::actions::Done;
use crate::http::call::Call;
use crate::http::pending::{Next, Waiting};
use crate::http::reads::{Lane, LedgerRead, ShowRead};
use crate::http::route::{Handler, Route, Served};
use crate::http::wire::answer::{Answering, TEXT};
use crate::http::wire::body::read_object;
use crate::http::wire::error::Problem;
use crate::http::wire::{Object, push_text};
use crate::intake::catalog::{Catalog, Counters};
use crate::intake::{Reply, Request};
use crate::ledger::Audit;
use crate::net::{Answer, NetStats};

pub(in crate::http) const ROUTES: &[Route] = &[
    Route::get("/healthz", Handler::Anybody(HttpService::health)).served(Served::Both),
    Route::get("/readyz", Handler::Anybody(HttpService::ready)).served(Served::Both),
    Route::get("/metrics", Handler::Anybody(HttpService::metrics)).served(Served::Operators),
    Route::get("/api/v1/time", Handler::Anybody(HttpService::time)),
    Route::get("/api/v1/openapi.json", Handler::Anybody(HttpService::open_api)),
    Route::get("/api/v1/audit", Handler::OperatorReads(Role::Viewer, read_audit)),
    Route::get("/api/v1/clock", Handler::Anybody(HttpService::clock)).served(Served::Operators),
    Route::post("/api/v1/clock/confirm", Handler::Operator(Role::Admin, HttpService::confirm_clock)),
];

/// The API's description, compiled in; a test compares it with the routes.
pub(in crate::http) const OPEN_API: &str = include_str!("../openapi.json");

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Confirmation {
    /// Both clocks were right, and the shop was closed in between.
    #[serde(default)]
    closed: bool,
}

/// Prometheus' text format in its standard form.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// SKUs whose stock is among the metrics, of the newest sales that are not over: a scrape must not grow without bound.
const STOCK_METRICS_MAX: usize = 1100;

impl HttpService {
    fn time(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.scratch.clear();
        let confirmed = self.shared.clock.is_confirmed();
        Object::begin(&mut self.scratch).number("now_ms", call.now.0).flag("confirmed", confirmed).end();
        out.json(200, &self.scratch);
        Ok(Answer::Ready)
    }

    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "a route like any other")]
    fn open_api(&mut self, _call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        out.cached(
            &[("Cache-Control", "public, max-age=300")],
            crate::http::wire::answer::JSON,
            OPEN_API.as_bytes(),
        );
        Ok(Answer::Ready)
    }

    /// The loop lives, or it would not answer.
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "a route like any other")]
    fn health(&mut self, _call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        out.body(200, TEXT, b"alive\n");
        Ok(Answer::Ready)
    }

    fn ready(&mut self, _call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        if !self.shared.is_ready() {
            return Err(Problem::unavailable("The server is stopping."));
        }
        if self.client.read_only() {
            return Err(Problem::unavailable("The disk takes no writes: orders can be read, not placed."));
        }
        if let Some(why) = self.shared.why_not_ready() {
            return Err(Problem::unavailable(why));
        }
        if let Some(why) = chores::why_unconfirmed(&self.shared.clock, &self.catalog) {
            return Err(Problem::unavailable(why));
        }
        // The first word is the answer; the rest is for people.
        let part_away = self.shared.part_away().map_or_else(String::new, |part| format!("; {part}"));
        let text = format!("ready{part_away}\n{}{}", self.shared.remarks(), self.shared.engine_settings());
        out.body(200, TEXT, text.as_bytes());
        Ok(Answer::Ready)
    }

    fn metrics(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        if self.shared.options.metrics_token_required {
            self.with_token(call)?;
        }
        let mut text = self.shared.metrics.encode();
        let end = text.trim_end().strip_suffix("# EOF").map_or(text.len(), str::len);
        text.truncate(end);
        self.write_gauges(&mut text).expect("writing to a string cannot fail");
        write_host(&mut text, &self.shared.figures.host()).expect("writing to a string cannot fail");
        write_net(&mut text, &self.shared.net).expect("writing to a string cannot fail");
        let skus = self.shared.lists.current_skus(&self.catalog, call.now, STOCK_METRICS_MAX);
        write_stock(&mut text, &self.catalog, &skus).expect("writing to a string cannot fail");
        write_lines(&mut text, &self.catalog, &skus).expect("writing to a string cannot fail");
        text.push_str("# EOF\n");
        out.body(200, METRICS_TYPE, text.as_bytes());
        Ok(Answer::Ready)
    }

    fn write_gauges(&self, text: &mut String) -> std::fmt::Result {
        let mut gauge = |name: &str, help: &str, value: &dyn std::fmt::Display| {
            writeln!(text, "# HELP {name} {help}.\n# TYPE {name} gauge\n{name} {value}")
        };
        let in_flight = self.shared.admission.in_flight();
        gauge("doorbuster_orders_in_flight", "Orders handed to the profile and not answered", &in_flight)?;
        let limits = self.shared.admission.limits();
        gauge(
            "doorbuster_admission_orders_per_s",
            "Orders let through per second; 0: all",
            &limits.orders_per_s,
        )?;
        gauge("doorbuster_admission_burst", "Orders let through at once above that", &limits.burst)?;
        gauge(
            "doorbuster_admission_in_flight_max",
            "Bound of orders in flight; 0: none",
            &limits.in_flight_max,
        )?;
        let difference_ms = self.shared.clock.wall_difference_ms();
        gauge("doorbuster_clock_difference_ms", "How far the wall clock is ahead of ours", &difference_ms)?;
        let unconfirmed = u8::from(!self.shared.clock.is_confirmed());
        gauge(
            "doorbuster_clock_unconfirmed",
            "1 while the clock stands until it is confirmed",
            &unconfirmed,
        )?;
        gauge(
            "doorbuster_sales",
            "Sales in the catalog",
            &self.catalog.sales.iter().filter(|sale| !sale.deleted).count(),
        )?;
        let ready = u8::from(
            self.shared.is_ready()
                && !self.client.read_only()
                && self.shared.why_not_ready().is_none()
                && self.shared.clock.is_confirmed(),
        );
        gauge("doorbuster_ready", "1 while it is ready, as /readyz says", &ready)?;
        let held = self.catalog.held();
        gauge("doorbuster_units_held", "Units of orders that await payment, over all sales", &held)?;
        let version = env!("CARGO_PKG_VERSION");
        writeln!(text, "# HELP doorbuster_build The version that runs.\n# TYPE doorbuster_build info")?;
        writeln!(text, "doorbuster_build_info{{version=\"{version}\"}} 1")
    }

    /// For the operator, as what it says is of the machine and not of the sales.
    fn clock(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.operator(call, Role::Viewer)?;
        let clock = &self.shared.clock;
        self.scratch.clear();
        Object::begin(&mut self.scratch)
            .flag("confirmed", clock.is_confirmed())
            .number("now_ms", call.now.0)
            .number("system_ms", clock.wall().0)
            .number_or_null("next_start_ms", chores::next_start(call.now, &self.catalog).map(|at| at.0))
            .end();
        out.json(200, &self.scratch);
        Ok(Answer::Ready)
    }

    fn confirm_clock(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        // Without a body it is what it was before there was a choice.
        let Confirmation { closed } =
            if call.request.body.is_empty() { Confirmation::default() } else { read_object(call)? };
        let by = call.operator();
        let kept = Waiting::Step(Box::new(move |reply| {
            let Reply::ClockConfirmed { from, to } = reply else { return Err(reply.into()) };
            let about = format!("from {} to {}", format_utc(from.0), format_utc(to.0));
            let done = Done { action: Action::ClockConfirmed, about, by };
            let (request, waiting) = done.keep(move |service, out| {
                service.scratch.clear();
                Object::begin(&mut service.scratch).number("from_ms", from.0).number("to_ms", to.0).end();
                out.json(200, &service.scratch);
                Ok(())
            });
            Ok(Next::Ask(request, waiting))
        }));
        self.ask_and_wait(call, Request::ConfirmClock { closed }, kept)
    }
}

fn read_audit(_call: &Call<'_>) -> Result<LedgerRead, Problem> {
    Ok(LedgerRead::new(|ledger| {
        let audit = ledger.audit()?;
        Ok(ShowRead::new(move |service, out| {
            service.scratch.clear();
            write_audit(&mut service.scratch, &audit);
            out.json(200, &service.scratch);
            Ok(())
        }))
    })
    .on(Lane::Audits))
}

fn write_audit(out: &mut Vec<u8>, audit: &Audit) {
    Object::begin(out)
        .flag("clean", audit.broken.is_empty())
        .flag("complete", audit.complete)
        .number("entries", audit.entries)
        .number("orders", audit.orders)
        .number("refunds_due", audit.refunds_due)
        .list("broken", &audit.broken, |out, line| push_text(out, line))
        .list("skus", &audit.skus, |out, sku| {
            Object::begin(out)
                .number("sale", sku.sale.0)
                .number("product", sku.product.0)
                .text("title", &sku.title)
                .number("total", sku.total)
                .number("available", sku.available)
                .number("turns", sku.turns)
                .number("held", sku.held)
                .number("sold", sku.sold)
                .number("orders", sku.orders)
                .end();
        })
        .end();
}

/// What the system does not say is not shown: no alarm is better than one by a number that nobody has.
fn write_host(text: &mut String, host: &HostFigures) -> std::fmt::Result {
    let mut gauge = |name: &str, help: &str, value: Option<&dyn std::fmt::Display>| {
        let Some(value) = value else { return Ok(()) };
        writeln!(text, "# HELP {name} {help}.\n# TYPE {name} gauge\n{name} {value}")
    };
    let free = host.disk.map(|disk| disk.free_bytes);
    let all = host.disk.map(|disk| disk.bytes);
    gauge("doorbuster_disk_free_bytes", "Free on the disk of the data directory", shown(&free))?;
    gauge("doorbuster_disk_bytes", "Size of the disk of the data directory", shown(&all))?;
    gauge("doorbuster_ledger_bytes", "The ledger's file and its WAL", shown(&host.ledger_bytes))?;
    gauge("doorbuster_memory_bytes", "Memory of this process that is resident", shown(&host.memory_bytes))?;
    gauge(
        "doorbuster_processors_busy_ratio",
        "The part of the machine's processors that worked in the last second",
        shown(&host.processors_busy),
    )
}

fn shown<T: std::fmt::Display>(value: &Option<T>) -> Option<&dyn std::fmt::Display> {
    value.as_ref().map(|value| value as &dyn std::fmt::Display)
}

fn write_net(text: &mut String, net: &NetStats) -> std::fmt::Result {
    let name = "doorbuster_connections_open";
    writeln!(text, "# HELP {name} Connections open now.\n# TYPE {name} gauge\n{name} {}", net.open())?;
    for (name, help, counter) in [
        ("connections_accepted", "Connections accepted", &net.accepted),
        ("connections_refused", "Connections turned away over the limit", &net.refused_over_limit),
        ("requests", "Complete requests", &net.requests),
        ("connection_timeouts", "Connections closed by a timeout", &net.timeouts),
        ("protocol_errors", "Requests that were not HTTP as we know it", &net.protocol_errors),
        ("bytes_in", "Bytes received", &net.bytes_in),
        ("bytes_out", "Bytes sent", &net.bytes_out),
    ] {
        writeln!(text, "# HELP doorbuster_{name} {help}.\n# TYPE doorbuster_{name} counter")?;
        writeln!(text, "doorbuster_{name}_total {}", counter.load(Relaxed))?;
    }
    Ok(())
}

fn write_stock(text: &mut String, catalog: &Catalog, skus: &[u32]) -> std::fmt::Result {
    let kinds = |units: &Counters, has_line: bool| {
        let of_each = [
            ("total", units.total()),
            ("available", units.available()),
            ("held", units.held()),
            ("sold", units.sold()),
        ];
        of_each.into_iter().chain(has_line.then(|| ("turns", units.turns())))
    };
    writeln!(text, "# HELP doorbuster_stock_units Units by what they are doing.")?;
    writeln!(text, "# TYPE doorbuster_stock_units gauge")?;
    for sku in skus.iter().map(|sku| &catalog.skus[*sku as usize]) {
        let spec = &catalog.sales[sku.sale].spec;
        let product = spec.items[sku.item].product.0;
        for (kind, units) in kinds(&sku.counters, sku.board.is_some()) {
            let sale = spec.id.0;
            writeln!(
                text,
                "doorbuster_stock_units{{sale=\"{sale}\",product=\"{product}\",kind=\"{kind}\"}} {units}"
            )?;
        }
    }
    Ok(())
}

/// Of the items that are sold to a line: who stands where now, and what has come since the beginning.
fn write_lines(text: &mut String, catalog: &Catalog, skus: &[u32]) -> std::fmt::Result {
    let lines: Vec<_> = skus
        .iter()
        .filter_map(|sku| {
            let sku = &catalog.skus[*sku as usize];
            let board = sku.board.as_ref()?;
            let spec = &catalog.sales[sku.sale].spec;
            Some((spec.id.0, spec.items[sku.item].product.0, board.read()?, board.present()))
        })
        .collect();
    let mut family = |name: &str, of: &str, help: &str, kinds: &dyn Fn(&LineView, u32) -> Kinds| {
        writeln!(text, "# HELP doorbuster_{name} {help}.\n# TYPE doorbuster_{name} {of}")?;
        let total = if of == "counter" { "_total" } else { "" };
        for (sale, product, line, present) in &lines {
            for (kind, count) in kinds(line, *present) {
                writeln!(
                    text,
                    "doorbuster_{name}{total}{{sale=\"{sale}\",product=\"{product}\",kind=\"{kind}\"}} {count}"
                )?;
            }
        }
        Ok(())
    };
    family("line_people", "gauge", "People in lines by where they stand", &|line, present| {
        let Standings { in_grace, away, called, .. } = line.standings;
        let waiting = line.joined - line.borders.reached;
        [("waiting", waiting), ("present", present), ("in_grace", in_grace), ("away", away), ("turn", called)]
    })?;
    family("line_events", "counter", "What people in lines have done, and who was called", &|line, _| {
        let Standings { ordered, expired, given_back, .. } = line.standings;
        [
            ("joined", line.joined),
            ("called", line.standings.all_called()),
            ("ordered", ordered),
            ("expired", expired),
            ("given_back", given_back),
        ]
    })
}

/// Each kind with how many are of it.
type Kinds = [(&'static str, u32); 5];
