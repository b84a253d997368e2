//! After the fault: whether everybody got what was promised, nothing was sold twice, and nothing is left unsold.
//!
//! Everything is judged by what the servers answer and by `doorbuster audit`, when nothing is on its way any more.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::attempt::{Answer, Attempt, Closed, TimedAnswer};
use crate::cluster::Cluster;
use crate::shop::{Caller, FLEETING, FLEETING_PAYMENT_S, Line, Product, Round, product};

/// Until every doubtful attempt is decided, and every accepted order is in the ledger.
const SETTLED_WITHIN: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(50);
/// Buyers of what is left; nobody else has such numbers.
const LAST_BUYERS: u64 = 1 << 40;
const QUANTITY_MAX: u64 = 1_000_000;

/// What the load came to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    /// Attempts whose buyers did not know, at some time, what had become of them.
    pub(crate) doubtful: u64,
    pub(crate) rejected: u64,
    /// Refused while an earlier request under the same key was still on its way, which was carried out later.
    pub(crate) late: u64,
    /// Orders that were made by a request to which no answer came.
    pub(crate) unanswered: u64,
    /// Every answer of the load, by its label.
    pub(crate) answers: BTreeMap<String, u64>,
}

/// Judges what the buyers lived through; sells what is left.
pub(crate) fn judge(cluster: &Cluster, mut attempts: Vec<Attempt>, round: Round) -> Outcome {
    let servers = cluster.addresses();
    let mut outcome = Outcome {
        doubtful: count(&attempts, Attempt::is_doubtful),
        unanswered: count(&attempts, Attempt::is_unanswered),
        answers: answers(&attempts),
        ..Outcome::default()
    };
    resolve(&servers, &mut attempts, |attempt| !attempt.is_decided());
    let mut rejected = wait_until_in_ledger(&servers, &attempts, round);
    // A request that a frozen server still had may have been carried out after its buyer was refused elsewhere.
    resolve(&servers, &mut attempts, |attempt| attempt.order().is_none() && attempt.is_doubtful());
    rejected.extend(wait_until_in_ledger(&servers, &attempts, round));
    outcome.late = count(&attempts, Attempt::is_late);
    outcome.accepted = count(&attempts, |attempt| attempt.order().is_some());
    outcome.refused = attempts.len() as u64 - outcome.accepted;
    outcome.rejected = rejected.len() as u64;
    let orders = Caller::calm(servers[0]).orders(round);
    check_orders(&attempts, &rejected, &orders);
    audit(cluster);
    sell_the_rest(&servers, round);
    audit(cluster);
    outcome
}

fn count(attempts: &[Attempt], is: impl Fn(&Attempt) -> bool) -> u64 {
    attempts.iter().filter(|attempt| is(attempt)).count() as u64
}

fn answers(attempts: &[Attempt]) -> BTreeMap<String, u64> {
    let mut answers = BTreeMap::new();
    for timed in attempts.iter().flat_map(|attempt| &attempt.answers) {
        *answers.entry(timed.answer.label()).or_default() += 1;
    }
    answers
}

/// Asks again with the same key until it is known what became of each.
fn resolve(servers: &[SocketAddr], attempts: &mut [Attempt], which: impl Fn(&Attempt) -> bool) {
    let mut caller = Caller::calm(servers[0]);
    let deadline = Instant::now() + SETTLED_WITHIN;
    for attempt in attempts.iter_mut().filter(|attempt| which(attempt)) {
        loop {
            let sent = Instant::now();
            let answer = caller.place(attempt);
            let decided =
                matches!(answer, Answer::Accepted { .. } | Answer::Refused { .. } | Answer::Rejected);
            attempt.hear(TimedAnswer { sent, at: Instant::now(), answer });
            if decided {
                break;
            }
            assert!(Instant::now() < deadline, "nobody knows what became of {attempt:?}");
            std::thread::sleep(PAUSE);
        }
    }
}

/// Waits until no accepted order is pending. The ids of those that were rejected.
fn wait_until_in_ledger(servers: &[SocketAddr], attempts: &[Attempt], round: Round) -> HashSet<String> {
    let mut callers: Vec<Caller> = servers.iter().copied().map(Caller::calm).collect();
    let deadline = Instant::now() + SETTLED_WITHIN;
    let mut rejected = HashSet::new();
    let placed: HashSet<String> = callers[0].orders(round).into_iter().map(|line| line.id).collect();
    for (number, attempt) in attempts.iter().enumerate() {
        let Some(id) = attempt.order() else { continue };
        if placed.contains(id) {
            continue;
        }
        let caller_number = number % callers.len();
        loop {
            let response =
                callers[caller_number].status(id, attempt.buyer, 1).expect("a server that is well answers");
            let status = response.json()["status"].as_str().unwrap_or_default().to_owned();
            match status.as_str() {
                "held" | "paid" | "cancelled" | "expired" => break,
                "rejected" => {
                    rejected.insert(id.to_owned());
                    break;
                }
                _ if matches!(response.status, 200 | 503) && Instant::now() < deadline => {
                    std::thread::sleep(PAUSE)
                }
                _ => panic!("accepted, and now {response:?}: {attempt:?}"),
            }
        }
    }
    rejected
}

/// Everything that was accepted is in the ledger as it was answered, and nothing else is.
fn check_orders(attempts: &[Attempt], rejected: &HashSet<String>, orders: &[Line]) {
    let orders: HashMap<&str, &Line> = orders.iter().map(|line| (line.id.as_str(), line)).collect();
    let mut ids = HashSet::new();
    let mut units: HashMap<(u64, u64), u64> = HashMap::new();
    for attempt in attempts {
        let Some(id) = attempt.order() else { continue };
        assert!(ids.insert(id), "two attempts were given one order: {attempt:?}");
        let Some(line) = orders.get(id) else {
            assert!(rejected.contains(id), "accepted, and not in the ledger: {attempt:?}");
            continue;
        };
        assert!(!rejected.contains(id), "rejected, and in the ledger: {attempt:?}");
        let same = (line.buyer, line.product, line.quantity);
        assert_eq!(same, (attempt.buyer, attempt.product, attempt.quantity.into()), "{attempt:?}");
        if let Some(Closed::Answered(status)) = attempt.closed {
            assert_eq!(line.status, status, "{attempt:?}");
        }
        if line.has_units() {
            *units.entry((line.product, line.buyer)).or_default() += line.quantity;
        }
    }
    for line in orders.values() {
        assert!(ids.contains(line.id.as_str()), "an order is there whose id nobody was given: {line:?}");
    }
    for ((number, buyer), units) in units {
        let limit = product(number).limit;
        assert!(limit.is_none_or(|limit| units <= limit.into()), "buyer {buyer} has {units} of {number}");
    }
}

/// `doorbuster audit` until gate, queue and ledger agree with nothing on its way between them; an embedded server has
/// its ledger alone.
fn audit(cluster: &Cluster) {
    let deadline = Instant::now() + SETTLED_WITHIN;
    loop {
        let (code, printed) = cluster.run(&["audit"]);
        if code == 0 && (cluster.is_embedded() || printed.contains("; at rest:")) {
            return;
        }
        assert!(Instant::now() < deadline, "the audit says, {code}:\n{printed}");
        std::thread::sleep(PAUSE);
    }
}

/// Buys all that is left, and nothing more can be: what the ledger holds is the total exactly.
fn sell_the_rest(servers: &[SocketAddr], round: Round) {
    let mut buyer = LAST_BUYERS * (round.number + 1);
    let deadline = Instant::now() + SETTLED_WITHIN + Duration::from_secs(FLEETING_PAYMENT_S);
    let mut caller = Caller::calm(servers[0]);
    loop {
        for product in round.products() {
            buy_up(servers, product, &mut buyer);
        }
        let orders = caller.orders(round);
        let left: Vec<String> =
            round.products().iter().filter_map(|product| left_of(product, &orders)).collect();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "left unsold, or sold twice: {left:?}");
        std::thread::sleep(PAUSE);
    }
}

/// Why a product is not sold out for good, if it is not.
fn left_of(product: &Product, orders: &[Line]) -> Option<String> {
    let orders = orders.iter().filter(|line| line.product == product.number && line.has_units());
    let (mut units, mut held) = (0, 0);
    for line in orders {
        units += line.quantity;
        held += u64::from(line.status == "held");
    }
    assert!(units <= product.total, "product {} was oversold: {units} of {}", product.number, product.total);
    let comes_back = product.is(FLEETING) && held > 0;
    (units < product.total || comes_back)
        .then(|| format!("product {}: {units} of {}, {held} orders held", product.number, product.total))
}

/// Buys until there is nothing left, by halves when there is less than was asked for.
fn buy_up(servers: &[SocketAddr], product: Product, buyer: &mut u64) {
    let mut quantity = u64::from(product.limit.unwrap_or(u32::MAX)).min(product.total).min(QUANTITY_MAX);
    let mut caller = Caller::calm(servers[0]);
    loop {
        *buyer += 1;
        let units = u32::try_from(quantity).expect("no order has more units");
        let mut attempt = Attempt::new(*buyer, format!("last-{buyer}"), product.number, units);
        resolve(servers, std::slice::from_mut(&mut attempt), |_| true);
        match &attempt.answers.last().expect("it was decided").answer {
            Answer::Accepted { id, .. } => {
                if product.is(FLEETING) {
                    pay(&mut caller, id, product.price * quantity, &attempt);
                }
            }
            Answer::Refused { code } if code == "not_enough_left" && quantity > 1 => {
                quantity = quantity.div_ceil(2)
            }
            Answer::Refused { code } if code == "sold_out" => return,
            answer => panic!("nothing is wrong any more, and the answer is {answer:?}: {attempt:?}"),
        }
    }
}

/// Pays an order, as soon as it is in the ledger.
fn pay(caller: &mut Caller, id: &str, amount: u64, attempt: &Attempt) {
    let deadline = Instant::now() + SETTLED_WITHIN;
    loop {
        let response = caller.pay(id, amount).expect("a server that is well answers");
        if response.status == 200 {
            return;
        }
        let later = matches!(response.status, 409 | 503) && Instant::now() < deadline;
        assert!(later, "{response:?}: {attempt:?}");
        std::thread::sleep(PAUSE);
    }
}
