//! Buyers who were erased, on every backend: their names and addresses go, their orders and everybody else's stay.

use engine::{Book, BuyerId, Command, Fingerprint, OrderId, Placement, SkuId};
use server::ledger::{Buyers, Ledger, OrderLine};

use crate::history::{sale, seen, text_of};
use crate::ledger::{commit, gone_from_the_file, history};
use crate::places::LedgerHome;

fn erase(book: &mut Book, ledger: &mut Ledger, at: u64, buyers: &[BuyerId]) {
    commit(book, ledger, at, buyers.iter().map(|buyer| Command::EraseBuyer(*buyer)).collect());
}

fn exported(home: &LedgerHome) -> Vec<OrderLine> {
    let mut lines = Vec::new();
    home.source().export(0, &mut |line| lines.push(line)).unwrap();
    lines
}

fn buyers() -> [BuyerId; 2] {
    let texts = Buyers::new(b"secret of a test");
    [texts.find("4").unwrap().id, texts.find("O'Neil №3").unwrap().id]
}

#[test]
fn what_names_a_buyer_goes_and_the_books_stay() {
    for home in LedgerHome::each() {
        let (mut ledger, mut book) = (home.open(), Book::new());
        let end = history(&mut book, &mut ledger, 9, 150);
        let before = exported(&home);
        let [number, hash] = buyers();
        assert!(text_of(hash).is_some() && text_of(number).is_none());
        erase(&mut book, &mut ledger, end, &[number, hash]);
        let marker = format!("erased:{hash}");
        assert!(exported(&home).iter().all(|line| line.buyer != "O'Neil №3"), "the name goes with the entry");
        assert_eq!(ledger.erase_addresses(5).unwrap(), 5);
        // A kill in the middle, and somebody else while the pass runs: the next one serves them.
        drop(ledger);
        let mut ledger = home.open();
        let later = Buyers::new(b"secret of a test").find("6").unwrap().id;
        erase(&mut book, &mut ledger, end, &[later]);
        let looked: Vec<u32> =
            std::iter::from_fn(|| Some(ledger.erase_addresses(50).unwrap())).take(20).collect();
        let passes = (before.len() - 5, before.len());
        assert_eq!(looked.iter().sum::<u32>() as usize, passes.0 + passes.1, "{looked:?}");
        assert_eq!(looked.last(), Some(&0));
        let erased = |line: &OrderLine| ["4", "6", "O'Neil №3"].contains(&&*line.buyer);
        assert!(before.iter().any(|line| erased(line) && line.address.is_some()));
        for (old, new) in before.iter().zip(exported(&home)) {
            let name = if old.buyer == "O'Neil №3" { &marker } else { &old.buyer };
            let address = if erased(old) { None } else { old.address.clone() };
            let expected = OrderLine { buyer: name.clone(), address, ..old.clone() };
            assert_eq!(new, expected);
        }
        if let LedgerHome::Sqlite(dir) = &home {
            gone_from_the_file(dir.path(), &mut ledger, &before, erased);
        }
        assert_eq!(home.source().audit().unwrap().broken, Vec::<String>::new());
        // Whoever orders again is there again.
        history(&mut book, &mut ledger, 10, 60);
        let names: Vec<_> = exported(&home).into_iter().map(|line| line.buyer).collect();
        assert!(names.iter().any(|name| name == "O'Neil №3") && !names.contains(&marker));
        assert_eq!(home.source().audit().unwrap().broken, Vec::<String>::new());
        drop(ledger);
        assert_eq!(seen(&home.load().unwrap()), seen(&book));
    }
}

#[test]
fn an_audit_still_finds_a_text_that_nobody_erased() {
    for home in LedgerHome::each() {
        let (mut ledger, mut book) = (home.open(), Book::new());
        let end = history(&mut book, &mut ledger, 9, 60);
        let [_, hash] = buyers();
        // Erased before their latest orders: those have a name again.
        erase(&mut book, &mut ledger, end, &[hash]);
        history(&mut book, &mut ledger, 11, 60);
        home.tamper("DELETE FROM buyers WHERE text = 'O''Neil №3'");
        let broken = home.source().audit().unwrap().broken;
        assert!(broken[0].ends_with("orders are of buyers who are hashes and have no text"), "{broken:?}");
    }
}

#[test]
fn who_orders_in_the_batch_of_their_erasure_has_a_name() {
    for home in LedgerHome::each() {
        let (mut ledger, mut book) = (home.open(), Book::new());
        let [_, hash] = buyers();
        let order = |key| {
            let id = OrderId { sku: SkuId(0), hash: key };
            Command::Place(Placement { id, buyer: hash, quantity: 1, fingerprint: Fingerprint(7) })
        };
        commit(
            &mut book,
            &mut ledger,
            1_000,
            vec![Command::CreateSale(sale(1)), order(1), Command::EraseBuyer(hash)],
        );
        assert_eq!(exported(&home)[0].buyer, format!("erased:{hash}"));
        commit(&mut book, &mut ledger, 1_001, vec![Command::EraseBuyer(hash), order(2)]);
        assert!(exported(&home).iter().all(|line| line.buyer == "O'Neil №3"));
        assert_eq!(home.source().audit().unwrap().broken, Vec::<String>::new());
    }
}
