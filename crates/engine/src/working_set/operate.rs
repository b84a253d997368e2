//! Operations: everything that can be asked but placing, which comes by the queue.

use super::WorkingSet;
use crate::handover::{Claim, Grant};
use crate::limits::ITEMS_FIXED_MS;
use crate::rules::apply::record;
use crate::rules::{Declined, operate, place};
use crate::{
    Accepted, BuyerId, By, Command, Event, KeptAddress, Operated, Operators, OrderId, Placement, Refusal,
};

/// Why a sale can't be, beside what holds for every ledger.
const NO_OPEN_HOLDS: &str = "the number of open holds per buyer can't be bounded where several servers sell: leave \
                             open_holds_per_buyer_max (sale create --open-holds) out";

const NO_LINES: &str = "an item can't be sold to a line where several servers sell: leave line out";
/// What others sell by must have been read by each of them when it starts.
const ITEMS_FIXED: &str = "where several servers sell, items can be changed, and a sale deleted, until a minute before its \
                           start, and no more once its start was moved within such a minute: pause the sale, or end it \
                           and create another";

/// A command that places nothing, with what the gate said if it needs units of the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    command: Command,
    /// Of a correction, or of the payment of an expired order. Means nothing for others.
    grant: Grant,
    /// The operator who asks, if it is one.
    by: Option<By>,
    /// Others sell what is in the ledger, and may not have heard of its latest entries.
    among_servers: bool,
}

impl Operation {
    /// A command as an operation.
    ///
    /// # Errors
    /// [`Command::Place`] is none: it takes the way through gate and queue.
    pub fn of(command: Command, grant: Grant) -> Result<Operation, Placement> {
        match command {
            Command::Place(placement) => Err(placement),
            command => Ok(Operation { command, grant, by: None, among_servers: false }),
        }
    }

    /// The same, with what the gate said since.
    pub fn with(&self, grant: Grant) -> Operation {
        Operation { grant, ..self.clone() }
    }

    /// The same for an operator: see [`crate::Book::execute_by`].
    pub fn by(self, by: Option<By>) -> Operation {
        Operation { by, ..self }
    }

    /// The same where several servers sell: what they sell by is fixed [`ITEMS_FIXED_MS`] before the start.
    pub fn among_servers(self) -> Operation {
        Operation { among_servers: true, ..self }
    }

    /// Whether it is in time must be known, for others rely on what can come no more: what they sell by, or when.
    pub fn is_correction(&self) -> bool {
        let is = match &self.command {
            Command::ChangeSale { change, .. } => !change.items.is_empty() || change.starts_at.is_some(),
            Command::DeleteSale(_) => true,
            _ => false,
        };
        is && self.among_servers
    }

    pub fn command(&self) -> &Command {
        &self.command
    }
}

/// What an operation came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Executed {
    Accepted(Accepted),
    Refused(Refusal),
    /// Nothing was recorded: have the gate take these units, and ask again with what it said.
    NeedsClaim(Claim),
}

impl WorkingSet<'_> {
    /// Carries out one operation, or says why not.
    ///
    /// # Panics
    /// If what [`super::Needs::of_operations`] and [`WorkingSet::needs_further`] ask for was not loaded.
    pub fn execute(&mut self, operation: &Operation) -> Executed {
        assert!(!self.given_up, "nothing comes after a batch that was given up");
        let Operation { command, grant, by, among_servers } = operation.clone();
        if among_servers && self.sales.is_within(ITEMS_FIXED_MS, self.at, &command) {
            return Executed::Refused(Refusal::InvalidChange(ITEMS_FIXED));
        }
        if let Command::CreateSale(spec) = &command {
            let is_new = self.sales.get(spec.id).is_none();
            if is_new && spec.open_holds_per_buyer_max.is_some() {
                return Executed::Refused(Refusal::InvalidSale(NO_OPEN_HOLDS));
            }
            if spec.items.iter().any(|item| item.line.is_some()) {
                return Executed::Refused(Refusal::InvalidSale(NO_LINES));
            }
        }
        if let Command::Join { sku, .. }
        | Command::ShowPresence { sku, .. }
        | Command::Draw { sku, .. }
        | Command::LimitPace { sku, .. }
        | Command::SetLineMessage { sku, .. }
        | Command::GiveTurnBack { sku, .. } = command
        {
            let known = self.sales.known_sku(sku);
            return Executed::Refused(known.err().unwrap_or(Refusal::NoLine));
        }
        if let Command::Address { order, buyer, address } = command {
            return self.give_address((order, buyer), address);
        }
        let operated = by.map(|by| Operated::new(by, &command, self));
        let before = self.effects.entries.len();
        match operate::execute(self, self.at, command, grant) {
            Ok(accepted) => {
                if let Some(operated) = operated
                    && (self.effects.entries.len() > before || accepted == Accepted::ActionKept)
                {
                    record(self, self.at, Event::Operated(Box::new(operated)));
                }
                Executed::Accepted(accepted)
            }
            Err(Declined::Refused(refusal)) => Executed::Refused(refusal),
            Err(Declined::NeedsClaim(claim)) => Executed::NeedsClaim(claim),
        }
    }

    fn give_address(&mut self, whose: (OrderId, BuyerId), address: Box<[u8]>) -> Executed {
        let kept = self.kept_addresses.remove(&whose.0);
        assert!(
            kept.is_some() || self.order(whose.0).is_none(),
            "the address of an order that there is was read"
        );
        let kept = kept.unwrap_or(KeptAddress::Missing);
        let given = place::give_address(self, self.at, whose, &address, &kept);
        let kept = if let Ok((_, Some(entry))) = given {
            self.effects.addresses.push((entry, address.clone()));
            KeptAddress::Is(address)
        } else {
            kept
        };
        self.kept_addresses.insert(whose.0, kept);
        match given {
            Ok((order, entry)) => Executed::Accepted(Accepted::Order { order, replayed: entry.is_none() }),
            Err(refusal) => Executed::Refused(refusal),
        }
    }

    /// Takes in what the ledger has of an order's address. Needed for every order that is to be given one.
    pub fn load_address(&mut self, order: OrderId, kept: KeptAddress) {
        self.kept_addresses.entry(order).or_insert(kept);
    }

    /// Takes in the operators that the ledger has. Needed for every command about them.
    pub fn load_operators(&mut self, operators: Operators) {
        self.operators.get_or_insert(operators);
    }

    /// Carries out all operations or none. If one is not accepted, the set is given up: it has no effects.
    ///
    /// # Errors
    /// Why the first that was not accepted was not.
    ///
    /// # Panics
    /// As [`WorkingSet::execute`].
    pub fn execute_all(&mut self, operations: &[Operation]) -> Result<Vec<Accepted>, Declined> {
        let mut all = Vec::with_capacity(operations.len());
        for operation in operations {
            let why = match self.execute(operation) {
                Executed::Accepted(accepted) => {
                    all.push(accepted);
                    continue;
                }
                Executed::Refused(refusal) => Declined::Refused(refusal),
                Executed::NeedsClaim(claim) => Declined::NeedsClaim(claim),
            };
            self.given_up = true;
            return Err(why);
        }
        Ok(all)
    }
}
