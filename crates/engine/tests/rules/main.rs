//! The rules of a sale around their edges: tables of scripts, every interleaving of the races, and ledgers
//! that must not be believed.

mod addresses;
mod among_servers;
mod balance;
mod clock;
mod cooling_down;
mod operating;
mod operators;
mod paying;
mod placing;
mod queue;
mod races;
mod refunding;
mod replay;
mod shop;
