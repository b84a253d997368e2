//! Seeded histories of the engine against a naive model of the same rules: thousands of short ones, compared
//! whole after every command, and a few long ones, compared whole at intervals. A failure prints its seed and
//! step; to run one history again, give it a row in `single_histories_follow_the_model_in_every_step`.

mod coverage;
mod draw;
mod model;
mod tables;
mod transactions;

use engine::{Accepted, Book, CoolDown, Disposition, Entry, LedgerKind, Refusal, SaleView, SkuId, UnixMs};

use crate::coverage::Coverage;
use crate::draw::{Draw, Random, Shape, Step};
use crate::model::Model;

const SHORT: Shape =
    Shape { steps: 100, sales_permille: 20, sale_ms_max: 160, open_holds: true, corrections_permille: 5 };
const LONG: Shape = Shape { steps: 200_000, sales_permille: 5, sale_ms_max: 2_500, ..SHORT };
/// Steps between two whole comparisons of a long history; odd, so that they fall on any kind of command.
const LONG_INTERVAL: u64 = 9_973;
/// So short that a buyer waits, and orders again, within one sale.
const COOL_DOWN: CoolDown = CoolDown { first_ms: 3 };

#[test]
fn short_histories_follow_the_model_in_every_step() {
    let mut coverage = Coverage::default();
    for seed in 0..5_000 {
        one_history(seed, SHORT, 1, &mut coverage);
    }
    coverage.assert_complete();
}

#[test]
fn long_histories_follow_the_model() {
    let mut coverage = Coverage::default();
    for seed in 0..5 {
        one_history(seed, LONG, LONG_INTERVAL, &mut coverage);
    }
    coverage.assert_complete();
}

#[test]
fn single_histories_follow_the_model_in_every_step() {
    let rows = [
        // Longer than the short ones and compared as often: holds of one sale meet the next sale's opening.
        (1, Shape { steps: 1_500, ..LONG }, 1),
        (2, Shape { steps: 1_500, ..SHORT }, 1),
        // Sales so short that most of what happens to an order happens after its sale.
        (3, Shape { steps: 600, sales_permille: 40, sale_ms_max: 12, ..SHORT }, 1),
        // The clock is corrected so often that most deadlines have moved.
        (4, Shape { steps: 1_500, corrections_permille: 200, ..SHORT }, 1),
    ];
    for (seed, shape, interval) in rows {
        one_history(seed, shape, interval, &mut Coverage::default());
    }
}

/// Says which history it was, whatever assertion has failed in it: the engine's own ones too.
struct Witness {
    seed: u64,
    step: u64,
    doing: Option<(u64, Step)>,
}

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed: seed {}, step {}, {:?}", self.seed, self.step, self.doing);
        }
    }
}

fn one_history(seed: u64, shape: Shape, interval: u64, coverage: &mut Coverage) {
    let mut witness = Witness { seed, step: 0, doing: None };
    let (mut draw, mut book) = (Draw::new(seed, shape), Book::new());
    let mut model = Model::with_cool_down(COOL_DOWN.first_ms.into());
    book.set_cool_down(COOL_DOWN);
    let (mut steps, mut journal) = (Vec::new(), Vec::new());
    while witness.step < shape.steps {
        let (now, step) = draw.next(&model);
        witness.step += 1;
        witness.doing = Some((now, step.clone()));
        let stocks_before = (0..model.skus_len()).map(|sku| model.stock(SkuId(sku)));
        let stocks_before: Vec<_> = if interval == 1 { stocks_before.collect() } else { Vec::new() };
        one_step(&mut book, &mut model, now, &step, coverage);
        if witness.step.is_multiple_of(interval) {
            assert_same(&book, &model);
        }
        if interval == 1 {
            assert_touched(&mut book, &stocks_before);
        }
        let known = journal.len();
        book.drain_journal(&mut journal);
        journal[known..].iter().for_each(|entry| coverage.event(&entry.event));
        steps.push((now, step));
    }
    assert_same(&book, &model);
    assert_same(&replayed(&journal), &model);
    assert!(journal == executed(&steps), "the same commands made another journal");
}

fn one_step(book: &mut Book, model: &mut Model, now: u64, step: &Step, coverage: &mut Coverage) {
    match step {
        Step::Do(command) => {
            let answer = book.execute(UnixMs(now), command.clone());
            coverage.answer(&answer);
            assert_eq!(without_text(answer), without_text(model.execute(now, command)));
        }
        Step::Expire { max } => {
            let expired = book.expire_due(UnixMs(now), *max);
            assert_eq!(expired, model.expire(now, *max));
            if expired > 0 {
                coverage.count("swept");
            }
        }
        Step::Correct { to } => {
            book.correct_clock(UnixMs(now), UnixMs(*to), "operator").expect("the times are usual ones");
            model.correct(now, *to);
            assert_eq!(book.last_at(), UnixMs(*to));
        }
    }
    assert_eq!(book.next_seq().0, model.events + 1);
}

/// The model knows that a description can't be, not in which words the engine says so.
fn without_text(answer: Result<Accepted, Refusal>) -> Result<Accepted, Refusal> {
    answer.map_err(|refusal| match refusal {
        Refusal::InvalidSale(_) | Refusal::InvalidItem { .. } => Refusal::InvalidSale(""),
        Refusal::InvalidChange(_) => Refusal::InvalidChange(""),
        other => other,
    })
}

/// Everything that can be read of the book, against the model.
fn assert_same(book: &Book, model: &Model) {
    book.check_invariants().expect("no invariant is broken");
    assert_eq!(book.next_seq().0, model.events + 1);
    assert_eq!(book.sales().count(), model.sales.len());
    for (view, sale) in book.sales().zip(&model.sales) {
        let SaleView { spec, paused, ended, first_sku, .. } = view;
        assert_eq!((spec, paused, ended), (&sale.spec, sale.paused, sale.ended));
        let known = book.registry().get(spec.id).expect("its number stays taken");
        assert_eq!(known.deleted, sale.deleted);
        assert_eq!(first_sku.0, sale.first_sku);
    }
    for sku in (0..model.skus_len()).map(SkuId) {
        let stock = book.stock(sku).expect("the model has this SKU");
        let stock = [stock.total(), stock.available(), stock.held(), stock.sold()];
        assert_eq!(stock, model.stock(sku), "{sku:?}");
    }
    assert_eq!(book.stock(SkuId(model.skus_len())), None);
    assert_eq!(book.orders_len(), model.orders.len());
    for (index, order) in model.orders.iter().enumerate() {
        let view = model.view(index);
        assert_eq!(book.order(order.place.id), Some(view));
        assert_eq!(book.order_at(order.seq), Some(view));
    }
    let due: Vec<_> = book.refunds_due().collect();
    let model_due: Vec<_> = model.due.iter().map(|due| model.payments[*due].clone()).collect();
    assert!(due.iter().all(|payment| matches!(payment.disposition, Disposition::RefundDue(_))));
    assert_eq!(due, model_due);
    assert_eq!(book.refunds_due_len(), due.len());
}

/// The SKUs that the book calls touched are those whose stock moved, each once, with their stock.
fn assert_touched(book: &mut Book, before: &[[u64; 4]]) {
    let mut touched = Vec::new();
    book.drain_touched(|sku, stock| touched.push((sku, stock)));
    for (sku, stock) in &touched {
        assert_eq!(book.stock(*sku), Some(*stock));
    }
    for sku in (0..).map(SkuId) {
        let Some(stock) = book.stock(sku) else { break };
        let now = [stock.total(), stock.available(), stock.held(), stock.sold()];
        let times = touched.iter().filter(|(changed, _)| *changed == sku).count();
        assert!(times <= 1, "{sku:?} was reported {times} times");
        assert!(before.get(sku.0 as usize) == Some(&now) || times == 1, "nobody heard that {sku:?} moved");
    }
}

fn replayed(journal: &[Entry]) -> Book {
    let mut book = Book::new();
    for entry in journal {
        book.replay(LedgerKind::Book, entry).expect("a journal is consistent");
    }
    book
}

fn executed(steps: &[(u64, Step)]) -> Vec<Entry> {
    let (mut book, mut journal) = (Book::new(), Vec::new());
    book.set_cool_down(COOL_DOWN);
    for (now, step) in steps {
        match step {
            Step::Do(command) => drop(book.execute(UnixMs(*now), command.clone())),
            Step::Expire { max } => drop(book.expire_due(UnixMs(*now), *max)),
            Step::Correct { to } => drop(book.correct_clock(UnixMs(*now), UnixMs(*to), "operator")),
        }
    }
    book.drain_journal(&mut journal);
    journal
}

#[test]
fn the_generator_is_the_published_one() {
    let mut random = Random(1_234_567);
    let first: Vec<_> = std::iter::repeat_with(|| random.next()).take(3).collect();
    assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
}
