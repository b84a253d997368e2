//! The life of an order, on every backend: found by its entry, in order, with who did what.

use engine::{
    Accepted, Book, BuyerId, By, Command, Fingerprint, OrderId, Pay, Placement, Refund, SaleId, Seq, UnixMs,
};
use server::ledger::{Batch, Ledger, LifeStep, OrderLife, Source};

use crate::history::sale;
use crate::ledger::commit;
use crate::places::LedgerHome;

struct Shop {
    ledger: Ledger,
    book: Book,
    at: u64,
}

impl Shop {
    fn place(&mut self, key: u128, quantity: u32) -> (OrderId, Seq) {
        let sku = self.book.sku(SaleId(1), engine::ProductId(2)).unwrap();
        let id = OrderId { sku, hash: key };
        let place = Placement { id, buyer: BuyerId(key), quantity, fingerprint: Fingerprint(1) };
        self.does(vec![Command::Place(place)]);
        (id, self.book.order(id).unwrap().seq)
    }

    fn does(&mut self, commands: Vec<Command>) {
        self.at += 10;
        commit(&mut self.book, &mut self.ledger, self.at, commands);
    }

    fn operator(&mut self, command: Command, why: &str) -> Accepted {
        self.at += 10;
        let by = By { who: "sam".into(), why: why.into() };
        let accepted = self.book.execute_by(UnixMs(self.at), command, by).unwrap();
        let (mut entries, at) = (Vec::new(), UnixMs(self.at));
        self.book.drain_journal(&mut entries);
        let batch = Batch { entries: &entries, addresses: &[], buyers: &[], messages: &[], at };
        self.ledger.append(&batch).unwrap();
        accepted
    }
}

fn pay(order: OrderId, id: &str, units: u64) -> Command {
    Command::Pay(Pay { id: id.into(), order, amount: 4_999 * units })
}

fn refund(order: OrderId, id: &str, amount: Option<u64>, paid_out: bool) -> Command {
    Command::Refund(Refund { id: id.into(), order, amount, units: 0, paid_out })
}

fn life(source: &Source, order: Seq) -> OrderLife {
    source.order_life(order.0).unwrap().unwrap()
}

fn said(life: &OrderLife) -> Vec<String> {
    let by =
        |step: &LifeStep| step.by.as_ref().map_or(String::new(), |by| format!(" by {}: {}", by.who, by.why));
    let step = |step: &LifeStep| {
        let payment = step.what.payment().map_or(String::new(), |id| format!(" {id}"));
        let amount = step.what.refund().map_or(String::new(), |refund| format!(" {}", refund.amount));
        format!("{}{payment}{amount}{}", step.what.as_str(), by(step))
    };
    life.steps.iter().map(step).collect()
}

#[test]
fn what_became_of_an_order_is_found_by_its_entry_with_who_did_it() {
    for home in LedgerHome::each() {
        let mut shop = Shop { ledger: home.open(), book: Book::new(), at: 1_000 };
        shop.does(vec![Command::CreateSale(sale(1))]);
        let source = home.source();
        let (cancelled, cancelled_seq) = shop.place(1, 1);
        let (paid, paid_seq) = shop.place(2, 2);
        let (early, late) = (OrderId { hash: 3, ..paid }, OrderId { hash: 4, ..paid });
        shop.operator(Command::CancelFor(cancelled), "moved");
        // Another operator's action right after an entry of the order's is not about it.
        shop.does(vec![pay(paid, "pay_2", 2)]);
        shop.operator(Command::Pause(SaleId(1)), "slow");
        shop.operator(Command::Resume(SaleId(1)), "");
        shop.does(vec![refund(paid, "re_a", Some(1), true)]);
        shop.operator(refund(paid, "re_b", Some(7), false), "scratched");
        shop.operator(Command::Settle { payment: "re_b".into() }, "sent");
        shop.operator(refund(paid, "re_c", None, true), "by bank");
        // A payment that came before its order, and one that came late.
        shop.does(vec![pay(early, "pay_3", 1)]);
        let (_, early_seq) = shop.place(3, 1);
        let (_, late_seq) = shop.place(4, 1);
        shop.at += 1_000;
        shop.does(Vec::new());
        shop.does(vec![pay(late, "pay_4", 1)]);
        assert_eq!(said(&life(&source, cancelled_seq)), ["placed", "cancelled by sam: moved"], "{home:?}");
        let expected = [
            "placed".to_owned(),
            "paid pay_2".to_owned(),
            "refund_made re_a 1".to_owned(),
            "refund_due re_b 7 by sam: scratched".to_owned(),
            "refund_made re_b 7 by sam: sent".to_owned(),
            format!("refund_made re_c {} by sam: by bank", 2 * 4_999 - 8),
            "refunded by sam: by bank".to_owned(),
        ];
        assert_eq!(said(&life(&source, paid_seq)), expected, "{home:?}");
        assert_eq!(said(&life(&source, early_seq)), ["placed", "paid pay_3"], "{home:?}");
        assert_eq!(said(&life(&source, late_seq)), ["placed", "expired", "paid_late pay_4"], "{home:?}");
        assert_eq!(life(&source, late_seq).id, late);
        for none in [0, 1, late_seq.0 + 100, 1 << 40, u64::MAX] {
            assert_eq!(source.order_life(none).unwrap(), None, "{home:?} {none}");
        }
    }
}

#[test]
fn an_order_with_more_refunds_than_are_shown_is_shown_with_the_first() {
    for home in LedgerHome::each() {
        let mut shop = Shop { ledger: home.open(), book: Book::new(), at: 1_000 };
        shop.does(vec![Command::CreateSale(sale(1))]);
        let (order, seq) = shop.place(1, 1);
        shop.does(vec![pay(order, "pay", 1)]);
        let refunds = |from: u64, to: u64| {
            (from..to).map(|n| refund(order, &format!("re_{n}"), Some(1), n % 2 == 0)).collect::<Vec<_>>()
        };
        shop.does(refunds(0, 100));
        let whole = life(&home.source(), seq);
        assert_eq!((whole.more, whole.steps.len()), (false, 102), "{home:?}");
        shop.does(refunds(100, 130));
        let first = life(&home.source(), seq);
        assert_eq!((first.more, &first.steps[..]), (true, &whole.steps[..]), "{home:?}");
    }
}
