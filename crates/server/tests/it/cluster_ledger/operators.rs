//! Who may, and who did what, where servers keep no book.

use engine::working_set::{Executed, Operation};
use engine::{Accepted, Adjust, By, Command, Refusal, Role, SaleChange, SaleId, SkuId, UnixMs, limits};
use server::ledger::OperatorLogAsked;
use server::ledger::Source;

use super::{START, asked, assert_sound, one_sku, open};
use crate::operators::longest;

fn by(command: Command) -> Operation {
    asked(command).by(Some(By { who: "anna".into(), why: "too fast".into() }))
}

#[test]
fn one_server_adds_and_revokes_and_the_others_know() {
    let (mut ledger, database) = open();
    let mut other = ledger.another();
    let operator = longest(Role::Operator);
    let add = || asked(Command::AddOperator(Box::new(operator.clone())));
    let revoke = || asked(Command::RevokeOperator(operator.name.clone()));
    let executed = ledger.execute(UnixMs(START), &[add(), add()]).unwrap();
    assert_eq!(executed[0], Executed::Accepted(Accepted::Operators));
    assert!(matches!(executed[1], Executed::Refused(Refusal::InvalidChange(_))), "{executed:?}");
    assert_eq!(other.operators().unwrap().iter().collect::<Vec<_>>(), [&operator]);
    assert!(matches!(other.execute(UnixMs(START), &[add()]).unwrap()[0], Executed::Refused(_)));
    assert_eq!(other.execute(UnixMs(START), &[revoke()]).unwrap(), [Executed::Accepted(Accepted::Operators)]);
    assert_eq!(ledger.operators().unwrap().iter().count(), 0);
    assert!(matches!(ledger.execute(UnixMs(START), &[revoke()]).unwrap()[0], Executed::Refused(_)));
    let named = |number: usize| {
        let mut operator = longest(Role::Viewer);
        operator.name = format!("o{number}").into();
        asked(Command::AddOperator(Box::new(operator)))
    };
    let many: Vec<_> = (0..=limits::OPERATORS_MAX).map(named).collect();
    let executed = ledger.execute(UnixMs(START), &many).unwrap();
    let refused = executed.iter().filter(|executed| matches!(executed, Executed::Refused(_))).count();
    assert_eq!((refused, other.operators().unwrap().iter().count()), (1, limits::OPERATORS_MAX));
    assert_sound(&database);
}

#[test]
fn an_action_is_in_the_transaction_of_what_it_came_to_and_nothing_that_changed_nothing_is_one() {
    let (mut ledger, database) = open();
    one_sku(&mut ledger, 100, None);
    let sale = SaleId(1);
    ledger.execute(UnixMs(START), &[by(Command::Pause(sale)), by(Command::Pause(sale))]).unwrap();
    ledger.execute(UnixMs(START), &[asked(Command::Resume(sale)), by(Command::Pause(SaleId(9)))]).unwrap();
    let change = SaleChange { ends_at: Some(UnixMs(3_600_000)), ..SaleChange::default() };
    let restock = Command::Adjust { sku: SkuId(0), how: Adjust::Restock, units: 50, key: "k".into() };
    let operations = [by(Command::ChangeSale { sale, change }), by(restock)];
    ledger.execute(UnixMs(START), &operations).unwrap();
    let source = Source::MySql(Box::new(database.options.clone()));
    let actions =
        source.operator_log(&OperatorLogAsked { before: u64::MAX, sale: Some(sale), max: 9 }).unwrap();
    let said: Vec<_> =
        actions.actions.iter().map(|action| (&*action.operated.what, &*action.operated.about)).collect();
    let expected = [
        ("restocked", "product 1, 50 units: 100 -> 150"),
        ("sale_changed", "ends_at 1970-02-19T17:02:47Z -> 1970-01-01T01:00:00Z"),
        ("sale_paused", ""),
    ];
    assert_eq!(said, expected);
    assert!(actions.actions.iter().all(|action| &*action.operated.by.why == "too fast"));
    assert_sound(&database);
}
