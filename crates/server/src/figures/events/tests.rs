//! What is noted between two looks that a test makes.

use engine::{Book, Command, ItemSpec, Payment, ProductId, SaleSpec, UnixMs};

use super::*;
use crate::figures::sales::Units;
use crate::figures::sample::MachineFigures;

const AT_MS: u64 = 1_796_119_200_000;

fn sale(id: u64, phase: Phase, title: &'static str, items: &[(u64, u64)]) -> SaleFigures<'static> {
    let units = |total, available| Units { total, available, turns: 0, held: 0, sold: total - available };
    let item = |(product, (total, available)): (u64, (u64, u64))| ItemFigures {
        product,
        title: "Shoe",
        price: 4999,
        units: units(total, available),
        rates: None,
        refused_by_code: None,
        order_route: None,
        sold_out_at_ms: None,
        line: None,
    };
    SaleFigures {
        id,
        title,
        currency: "EUR",
        phase,
        starts_at_ms: AT_MS,
        ends_at_ms: AT_MS + 3_600_000,
        ended_at_ms: None,
        units: Units::default(),
        rates: None,
        refused_by_code: BTreeMap::new(),
        order_route: None,
        stock_asked_per_s: None,
        holds: None,
        items_total: items.len(),
        items: (30..).zip(items.iter().copied()).map(item).collect(),
    }
}

fn near<'a>(sale: &SaleFigures<'a>) -> NearSale<'a> {
    let SaleFigures { id, title, phase, starts_at_ms, units, .. } = *sale;
    NearSale { id, title, phase, starts_at_ms, units }
}

fn server(name: &str, counted: bool) -> ServerFigures {
    ServerFigures {
        server: name.to_owned(),
        silent_ms: 0,
        counted,
        ready: true,
        accepted_per_s: 0.0,
        in_flight: 0,
        processors_busy: None,
        memory_bytes: None,
        machine: MachineFigures::default(),
    }
}

fn verdict(code: &'static str) -> Verdict {
    let says = format!("It is {code}.");
    Verdict {
        level: Level::Green,
        code,
        says,
        cause: None,
        no_orders: false,
        action: "",
        press: None,
        runbook: String::new(),
    }
}

struct Night {
    events: Events,
    book: Book,
    /// Since the first look.
    s: u64,
    servers: Vec<ServerFigures>,
    ready: bool,
    part_away: Option<PartAway>,
    code: &'static str,
    /// At the next look.
    stood_still: Option<Duration>,
    has_just_woken: bool,
}

impl Night {
    fn new() -> Night {
        Night {
            events: Events::default(),
            book: Book::new(),
            s: 0,
            servers: vec![server("a", true)],
            ready: true,
            part_away: None,
            code: "quiet",
            stood_still: None,
            has_just_woken: false,
        }
    }

    /// What is new of a look so many seconds after the one before.
    fn look(&mut self, after_s: u64, sales: &[SaleFigures<'static>]) -> Vec<(Kind, String)> {
        self.s += after_s;
        let at_ms = AT_MS + self.s * 1_000;
        let reasons = ["The disk is full.".to_owned()];
        let (servers, ready, verdict) = (&self.servers[..], self.ready, &verdict(self.code));
        let catalog = &Catalog::of(self.book.registry(), &Catalog::default());
        let (reasons, near) = (&reasons, &sales.iter().map(near).collect::<Vec<_>>());
        self.events.look(&Look {
            at_ms,
            server: "a",
            catalog,
            near,
            sales,
            servers,
            ready,
            reasons,
            part_away: self.part_away.as_ref(),
            verdict,
            stood_still: self.stood_still.take(),
            has_just_woken: self.has_just_woken,
        });
        let new = self.events.last().iter().filter(|event| event.at_ms == at_ms);
        new.map(|event| (event.kind, event.says.clone())).collect()
    }
}

fn of_kinds(new: Vec<(Kind, String)>) -> Vec<Kind> {
    new.into_iter().map(|(kind, _)| kind).collect()
}

#[test]
fn a_sale_is_followed_from_its_plan_to_its_end() {
    let mut night = Night::new();
    let of = |phase, title, items: &[(u64, u64)]| [sale(3, phase, title, items)];
    let says = |kind, text: &str| vec![(kind, text.to_owned())];
    let started = says(Kind::ServerStarted, "a was started.");
    assert_eq!(night.look(0, &[]), started, "it knows nothing of before");
    let planned = of(Phase::NotStarted, "Drop", &[(9, 9), (1, 0)]);
    assert_eq!(night.look(1, &planned), says(Kind::SaleAdded, "“Drop” is planned."));
    assert_eq!(night.look(1, &planned), []);
    let live = |items: &[(u64, u64)]| of(Phase::Live, "Drop", items);
    assert_eq!(night.look(1, &live(&[(9, 9), (1, 0)])), says(Kind::SaleOpened, "“Drop” has started."));
    assert_eq!(night.look(1, &live(&[(9, 0), (1, 0)])), says(Kind::SoldOut, "“Shoe” is sold out."));
    assert_eq!(night.look(1, &live(&[(9, 1), (1, 0)])), says(Kind::OnSaleAgain, "“Shoe” is on sale again."));
    let restocked = says(Kind::StockChanged, "“Shoe” has 12 units in all, before 9.");
    assert_eq!(night.look(1, &live(&[(12, 4), (1, 0)])), restocked);
    let paused = of(Phase::Paused, "Drop", &[(12, 4), (1, 0)]);
    assert_eq!(night.look(1, &paused), says(Kind::SalePaused, "“Drop” is paused."));
    assert_eq!(night.look(1, &live(&[(12, 4), (1, 0)])), says(Kind::SaleResumed, "“Drop” sells again."));
    let mut edited = of(Phase::Live, "Drop 2", &[(12, 4), (1, 0)]);
    edited[0].ends_at_ms += 1;
    assert_eq!(night.look(1, &edited), says(Kind::SaleEdited, "Title or times of “Drop 2” were changed."));
    let mut ended = of(Phase::Ended, "Drop 2", &[(12, 4), (1, 0)]);
    ended[0].ends_at_ms -= 60_000;
    assert_eq!(night.look(1, &ended), says(Kind::SaleEnded, "“Drop 2” has ended."));
    let first = &night.events.last()[0];
    assert_eq!((first.sale, first.product, night.events.last().len()), (Some(3), None, 10));
}

/// After units were added to a sale that was over, it was on sale again, it said.
#[test]
fn units_of_a_sale_that_is_paused_or_over_are_not_on_sale_again() {
    for phase in [Phase::NotStarted, Phase::Paused, Phase::Ended] {
        let mut night = Night::new();
        night.look(0, &[sale(3, phase, "Drop", &[(9, 0)])]);
        let restocked = [sale(3, phase, "Drop", &[(13, 4)])];
        assert_eq!(of_kinds(night.look(1, &restocked)), [Kind::StockChanged], "{phase:?}");
    }
}

/// Whoever was called may let a turn go.
#[test]
fn what_is_set_aside_in_turns_is_not_sold_out() {
    let mut night = Night::new();
    let sale = |[available, turns, sold]: [u64; 3]| {
        let mut sale = sale(3, Phase::Live, "Drop", &[(2, available)]);
        sale.items[0].units = Units { total: 2, available, turns, held: 0, sold };
        [sale]
    };
    night.look(0, &sale([2, 0, 0]));
    assert_eq!(night.look(1, &sale([0, 2, 0])), []);
    assert_eq!(of_kinds(night.look(1, &sale([0, 0, 2]))), [Kind::SoldOut]);
    assert_eq!(of_kinds(night.look(1, &sale([0, 1, 1]))), [Kind::OnSaleAgain]);
}

/// Has the catalog know a sale.
fn create(night: &mut Night, id: u64) {
    let item = ItemSpec {
        product: ProductId(30),
        title: "Shoe".to_owned(),
        description: String::new(),
        price: 4999,
        list_price: 4999,
        total: 9,
        limit: None,
        image: None,
        line: None,
    };
    let spec = SaleSpec {
        id: SaleId(id),
        title: "Drop".to_owned(),
        currency: "EUR".to_owned(),
        starts_at: UnixMs(AT_MS),
        ends_at: UnixMs(AT_MS + 3_600_000),
        payment: Payment::OnPlacing,
        open_holds_per_buyer_max: None,
        items: vec![item],
    };
    night.book.execute(UnixMs(1), Command::CreateSale(spec)).unwrap();
}

#[test]
fn what_is_done_to_a_sale_before_its_start_is_noted() {
    let mut night = Night::new();
    let of = |id, phase| sale(id, phase, "Drop", &[(9, 9)]);
    let says = |kind, text: &str| vec![(kind, text.to_owned())];
    create(&mut night, 1);
    night.look(0, &[]);
    create(&mut night, 2);
    create(&mut night, 3);
    let live = says(Kind::SaleOpened, "“Drop” has started.");
    assert_eq!(night.look(1, &[of(2, Phase::Live)]), live, "it was live at once");
    let there_before = [of(1, Phase::Live), of(2, Phase::Live)];
    assert_eq!(night.look(1, &there_before), [], "others had left no room for it");
    night.look(1, &[of(3, Phase::Paused)]);
    assert_eq!(
        night.look(1, &[of(3, Phase::NotStarted)]),
        says(Kind::SaleResumed, "“Drop” is no longer paused.")
    );
    let mut cheaper = of(3, Phase::NotStarted);
    cheaper.items[0].price = 500;
    let cheaper = [cheaper];
    assert_eq!(night.look(1, &cheaper), says(Kind::PriceChanged, "“Shoe” costs 5.00 EUR, before 49.99."));
    assert_eq!(night.look(1, &cheaper), []);
    night.book.execute(UnixMs(2), Command::DeleteSale(SaleId(3))).unwrap();
    assert_eq!(night.look(1, &[]), says(Kind::SaleDeleted, "“Drop” was deleted."));
    assert_eq!(night.look(1, &[]), []);
    assert_eq!(night.look(1, &there_before), [], "it had no room again");
}

#[test]
fn what_is_lost_and_comes_back_is_noted() {
    let mut night = Night::new();
    night.look(0, &[]);
    night.servers.push(server("b", true));
    assert_eq!(night.look(1, &[]), [(Kind::ServerBack, "b is there.".to_owned())]);
    night.servers[1].counted = false;
    assert_eq!(night.look(1, &[]), [(Kind::ServerSilent, "b is silent.".to_owned())]);
    (night.ready, night.code) = (false, "disk_takes_no_writes");
    let no_orders = (Kind::NoOrdersTaken, "No order is taken. The disk is full.".to_owned());
    let verdict = (Kind::VerdictChanged, "It is disk_takes_no_writes.".to_owned());
    assert_eq!(night.look(1, &[]), [verdict, no_orders]);
    (night.ready, night.code) = (true, "quiet");
    assert_eq!(of_kinds(night.look(1, &[])), [Kind::VerdictChanged, Kind::OrdersTaken]);
}

/// One shard of a Redis Cluster is away: it was said that no order is taken.
#[test]
fn what_can_not_be_bought_is_noted_by_name_and_again_when_it_changes() {
    let mut night = Night::new();
    let part = |titles: &[&str], why: &str| {
        let titles = titles.iter().map(|title| (*title).to_owned()).collect();
        Some(PartAway { titles, products: 7, why: why.to_owned() })
    };
    night.look(0, &[]);
    night.part_away = part(&["Shoe", "Hat"], "refused");
    let says = "“Shoe”, “Hat” and 5 more can't be bought, other products can: refused.".to_owned();
    assert_eq!(night.look(1, &[]), [(Kind::PartAway, says)]);
    night.part_away = part(&["Shoe", "Hat"], "timed out");
    assert_eq!(night.look(1, &[]), [], "they are the same");
    night.part_away = part(&["Cap"], "refused");
    assert_eq!(of_kinds(night.look(1, &[])), [Kind::PartAway]);
    (night.part_away, night.ready) = (None, false);
    assert_eq!(of_kinds(night.look(1, &[])), [Kind::NoOrdersTaken], "and not that all can be bought");
    (night.part_away, night.ready) = (part(&["Cap"], "refused"), true);
    assert_eq!(of_kinds(night.look(1, &[])), [Kind::PartAway, Kind::OrdersTaken]);
    night.part_away = None;
    let says = "All products can be bought again.".to_owned();
    assert_eq!(night.look(1, &[]), [(Kind::PartBack, says)]);
}

#[test]
fn what_goes_to_and_fro_pushes_nothing_out_and_the_list_is_bounded() {
    let mut night = Night::new();
    let items = |available| [sale(3, Phase::Live, "Drop", &[(9, available)])];
    night.look(0, &[sale(3, Phase::Paused, "Drop", &[(9, 1)])]);
    night.look(1, &items(1));
    for second in 0..50 {
        night.code = if second % 2 == 0 { "busy" } else { "quiet" };
        night.look(1, &items(second % 2));
    }
    let kinds: Vec<_> = night.events.last().iter().map(|event| event.kind).collect();
    let first = [Kind::SaleResumed, Kind::ServerStarted];
    assert_eq!(kinds, [&[Kind::VerdictChanged, Kind::OnSaleAgain, Kind::SoldOut][..], &first].concat());
    let kept = night.events.kept();
    night.look(1, &items(1));
    assert!(Arc::ptr_eq(&kept, &night.events.kept()), "nothing happened");
    for minute in 0..80 {
        night.code = if minute % 2 == 0 { "busy" } else { "quiet" };
        night.look(60, &items(1));
    }
    assert_eq!(night.events.last().len(), EVENTS_MAX);
    assert!(night.events.last().iter().is_sorted_by(|one, next| one.at_ms > next.at_ms));
    let kept = night.events.kept();
    let mut night = Night { events: Events::after(kept.to_vec()), ..night };
    let found = of_kinds(night.look(1, &items(0)));
    assert_eq!(found, [Kind::ServerStarted], "what a start finds is nothing new");
    night.look(60, &items(1));
    let last: Vec<_> = night.events.last().iter().take(3).map(|event| event.kind).collect();
    assert_eq!(last, [Kind::OnSaleAgain, Kind::ServerStarted, kept[0].kind]);
}

/// It said of the others, and of engines, what was its own doing.
#[test]
fn whoever_stood_still_notes_that_alone_until_it_has_looked_again() {
    let silent = (Kind::ServerSilent, "b is silent.".to_owned());
    let no_orders = (Kind::NoOrdersTaken, "No order is taken. The disk is full.".to_owned());
    for (what, is_heard, is_ready, later) in [
        ("all is well again", true, true, vec![]),
        ("the other was killed meanwhile", false, true, vec![silent.clone()]),
        ("an engine was", true, false, vec![no_orders.clone()]),
        ("both were", false, false, vec![no_orders, silent]),
    ] {
        let mut night = Night::new();
        night.servers.push(server("b", true));
        night.look(0, &[]);
        // Nobody was heard yet, and what was asked before was answered too late.
        (night.servers[1].counted, night.ready) = (false, false);
        (night.stood_still, night.has_just_woken) = (Some(Duration::from_secs(39)), true);
        let stood_still = (Kind::ServerStoodStill, "a stood still for 39 s.".to_owned());
        assert_eq!(night.look(40, &[]), [stood_still], "{what}");
        assert_eq!(night.look(1, &[]), [], "{what}");
        (night.servers[1].counted, night.ready) = (is_heard, is_ready);
        assert_eq!(night.look(1, &[]), [], "{what}");
        night.has_just_woken = false;
        assert_eq!(night.look(2, &[]), later, "{what}");
    }
}
