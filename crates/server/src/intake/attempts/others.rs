//! What the other servers of a cluster have counted: asked for while somebody looks, reported while somebody asks, and added.
//!
//! Whoever looks does not wait: the first answer is this server's alone, a later one has the others'. A report is kept nowhere
//! for long, because it names buyers. Must not: know how it is carried.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::{BuyerId, SaleId, SkuId, UnixMs};
use serde::{Deserialize, Serialize};

use super::table::{Attempts, CAME};
use super::{AllAttempts, LISTED_MAX, Top, Tops, Tried};
use crate::intake::Servers;
use crate::time::Instant;

/// Items that are asked for at a time; one more takes the place of the one that was looked at longest ago.
const WANTED_MAX: usize = 16;
/// After the last look at an item.
const WANTED_FOR: Duration = Duration::from_secs(20);
/// A report that came so long ago is not added any more.
const HEARD_FOR: Duration = Duration::from_secs(5);
/// Of each list of a report.
const REPORTED_MAX: usize = 50;
/// A longer report is not read: four lists of names with 128 bytes, which JSON may write six times as long.
const REPORT_BYTES_MAX: usize = 256 * 1024;
/// Erased buyers of whom the others are yet to hear.
const FORGOTTEN_MAX: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct Others(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// There are others, and somebody carries.
    carried: bool,
    wanted: HashMap<SkuId, Wanted>,
    forgotten: VecDeque<BuyerId>,
}

#[derive(Debug)]
struct Wanted {
    looked_at: Instant,
    /// By the run of a server.
    reports: HashMap<String, (Vec<u8>, Instant)>,
    /// Servers that live, but for this one.
    others: usize,
}

/// The sum of those that are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summed {
    pub tops: Tops,
    /// This one among them.
    pub servers: usize,
    /// Of those that live, which have not reported yet.
    pub missing: usize,
}

impl Others {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What they reported of an item, which is asked for from now on.
    fn look(&self, sku: SkuId) -> Option<(Vec<Tops>, usize)> {
        let mut state = self.lock();
        if !state.carried {
            return None;
        }
        let now = Instant::now();
        state.make_room(sku);
        let none_yet = || Wanted { looked_at: now, reports: HashMap::new(), others: 1 };
        let wanted = state.wanted.entry(sku).or_insert_with(none_yet);
        wanted.looked_at = now;
        let fresh = wanted.reports.values().filter(|(_, at)| now.duration_since(*at) <= HEARD_FOR);
        let tops: Vec<Tops> = fresh.filter_map(|(report, _)| read(report)).collect();
        let missing = wanted.others.saturating_sub(tops.len());
        Some((tops, missing))
    }
}

impl State {
    fn make_room(&mut self, sku: SkuId) {
        if self.wanted.len() < WANTED_MAX || self.wanted.contains_key(&sku) {
            return;
        }
        let oldest = self.wanted.iter().min_by_key(|(_, wanted)| wanted.looked_at).map(|(sku, _)| *sku);
        oldest.and_then(|sku| self.wanted.remove(&sku));
    }
}

impl AllAttempts {
    /// Who tried most to order an item, here and at the other servers that have reported it.
    pub fn top_of_all(&self, sale: SaleId, sku: SkuId, now: UnixMs) -> Summed {
        let Some((others, missing)) = self.others.look(sku) else {
            return Summed { tops: self.top(sale, sku, now, LISTED_MAX), servers: 1, missing: 0 };
        };
        let servers = 1 + others.len();
        let ours = self.top(sale, sku, now, REPORTED_MAX);
        let all: Vec<Tops> = std::iter::once(ours).chain(others).collect();
        Summed { tops: sum(&all), servers, missing }
    }

    /// From now on what is wanted of the others is carried to them.
    pub fn carry(&self) {
        self.others.lock().carried = true;
    }

    /// The items that somebody looks at here.
    pub fn wanted(&self) -> Vec<SkuId> {
        let now = Instant::now();
        let wanted = &mut self.others.lock().wanted;
        wanted.retain(|_, wanted| now.duration_since(wanted.looked_at) <= WANTED_FOR);
        wanted.keys().copied().collect()
    }

    /// What others have reported of an item, by their runs. What is the same as before is of one that is gone, or slow: each
    /// report is another.
    pub fn hear(&self, sku: SkuId, reports: Vec<(String, Vec<u8>)>, others: usize) {
        let now = Instant::now();
        let mut state = self.others.lock();
        let Some(wanted) = state.wanted.get_mut(&sku) else { return };
        wanted.others = others;
        let mut before = std::mem::take(&mut wanted.reports);
        let readable = reports.into_iter().filter(|(_, report)| report.len() <= REPORT_BYTES_MAX);
        for (run, report) in readable.take(Servers::OTHERS_MAX) {
            let at = match before.remove(&run) {
                Some((earlier, at)) if earlier == report => at,
                _ => now,
            };
            wanted.reports.insert(run, (report, at));
        }
    }

    /// For another server. `question`: what makes it another report than the one before.
    pub fn report(&self, sale: SaleId, sku: SkuId, now: UnixMs, question: &str) -> Vec<u8> {
        written(&self.top(sale, sku, now, REPORTED_MAX), question)
    }

    /// Buyers that the other servers are to forget, too.
    pub fn forgotten(&self) -> Vec<BuyerId> {
        std::mem::take(&mut self.others.lock().forgotten).into()
    }

    pub(super) fn have_forgotten(&self, buyer: BuyerId) {
        let mut state = self.others.lock();
        // What was reported of an erased buyer goes; the others report anew without.
        state.wanted.values_mut().for_each(|wanted| wanted.reports.clear());
        if state.carried && state.forgotten.len() < FORGOTTEN_MAX {
            state.forgotten.push_back(buyer);
        }
    }
}

fn sum(all: &[Tops]) -> Tops {
    let lists = |place: usize| all.iter().map(move |tops| &tops.buyers[place]);
    let of_addresses = |place: usize| all.iter().map(move |tops| &tops.addresses[place]);
    Tops {
        buyers: [sum_of(lists(0)), sum_of(lists(1))],
        addresses: [sum_of(of_addresses(0)), sum_of(of_addresses(1))],
        uncounted: all.iter().fold(0, |sum, tops| sum.saturating_add(tops.uncounted)),
    }
}

/// Whoever is in one list and not in another one made as many attempts there as its unlisted did at most.
fn sum_of<'a, K: Copy + Eq + Ord + std::hash::Hash + 'a>(lists: impl Iterator<Item = &'a Top<K>>) -> Top<K> {
    let (mut known, mut all_unlisted) = (HashMap::<K, (Tried<K>, u32)>::new(), 0_u32);
    for list in lists {
        for tried in &list.tried {
            let nothing =
                || (Tried { who: tried.who, name: None, attempts: Attempts::default(), missed_max: 0 }, 0);
            let (sum, listed) = known.entry(tried.who).or_insert_with(nothing);
            sum.attempts.add(&tried.attempts);
            sum.name = sum.name.take().or_else(|| tried.name.clone());
            sum.missed_max = sum.missed_max.saturating_add(tried.missed_max);
            *listed = listed.saturating_add(list.unlisted_max);
        }
        all_unlisted = all_unlisted.saturating_add(list.unlisted_max);
    }
    let add = |(mut tried, listed): (Tried<K>, u32)| {
        tried.missed_max = tried.missed_max.saturating_add(all_unlisted.saturating_sub(listed));
        tried
    };
    Top::of(known.into_values().map(add).collect(), all_unlisted, LISTED_MAX)
}

/// Who, by which name, with what came of it, and how often more at most.
type SaidTried = (String, Option<Box<str>>, [u32; CAME], u32);

/// As it is carried. Another version may say more, which is passed over.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Said {
    question: String,
    buyers: [SaidList; 2],
    addresses: [SaidList; 2],
    uncounted: u64,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct SaidList {
    tried: Vec<SaidTried>,
    unlisted_max: u32,
}

fn written(tops: &Tops, question: &str) -> Vec<u8> {
    let said = Said {
        question: question.to_owned(),
        buyers: tops.buyers.each_ref().map(|top| said_list(top, |BuyerId(who)| who.to_string())),
        addresses: tops.addresses.each_ref().map(|top| said_list(top, IpAddr::to_string)),
        uncounted: tops.uncounted,
    };
    serde_json::to_vec(&said).expect("all of it is plain")
}

fn said_list<K>(top: &Top<K>, who: impl Fn(&K) -> String) -> SaidList {
    let said = |tried: &Tried<K>| (who(&tried.who), tried.name.clone(), tried.attempts.0, tried.missed_max);
    SaidList { tried: top.tried.iter().map(said).collect(), unlisted_max: top.unlisted_max }
}

/// `None`: nobody can read it.
fn read(report: &[u8]) -> Option<Tops> {
    let Said { buyers, addresses, uncounted, .. } = serde_json::from_slice(report).ok()?;
    let buyer = |who: &str| who.parse().ok().map(BuyerId);
    let address = |who: &str| who.parse::<IpAddr>().ok();
    let [night, minute] = buyers.map(|list| heard_list(list, buyer));
    let [addresses_night, addresses_minute] = addresses.map(|list| heard_list(list, address));
    Some(Tops { buyers: [night?, minute?], addresses: [addresses_night?, addresses_minute?], uncounted })
}

fn heard_list<K: Copy + Ord>(list: SaidList, who: impl Fn(&str) -> Option<K>) -> Option<Top<K>> {
    let tried = list.tried.into_iter().take(REPORTED_MAX).map(|(name_of, name, counts, missed_max)| {
        Some(Tried { who: who(&name_of)?, name, attempts: Attempts(counts), missed_max })
    });
    Some(Top::of(tried.collect::<Option<_>>()?, list.unlisted_max, REPORTED_MAX))
}

#[cfg(test)]
mod tests {
    use super::super::Came;
    use super::*;

    const NOW: UnixMs = UnixMs(1_700_000_000_000);
    const SALE: SaleId = SaleId(3);
    const SKU: SkuId = SkuId(7);

    fn server(buyers: impl Iterator<Item = (u64, u32)>) -> AllAttempts {
        let all = AllAttempts::default();
        all.carry();
        let mut counted = all.of_loop();
        for (buyer, times) in buyers {
            (0..times).for_each(|_| counted.count(attempt(buyer)));
        }
        all
    }

    fn attempt(buyer: u64) -> super::super::Attempt {
        super::super::Attempt {
            sale: SALE,
            ends_at: UnixMs(NOW.0 + 3_600_000),
            sku: SKU,
            buyer: BuyerId(buyer.into()),
            name: Some(format!("buyer {buyer}").into()),
            client: "2001:db8::1".parse().unwrap(),
            came: Came::Busy,
            now: NOW,
        }
    }

    fn listed(summed: &Summed) -> Vec<(u128, u32, u32)> {
        let tried = summed.tops.buyers[0].tried.iter();
        tried.map(|tried| (tried.who.0, tried.attempts.total(), tried.missed_max)).collect()
    }

    #[test]
    fn what_servers_counted_is_added_once_they_have_reported() {
        let (here, there) = (server([(1, 2), (2, 1)].into_iter()), server([(1, 5), (3, 4)].into_iter()));
        let first = here.top_of_all(SALE, SKU, NOW);
        assert_eq!((listed(&first), first.servers, first.missing), (vec![(1, 2, 0), (2, 1, 0)], 1, 1));
        assert_eq!((here.wanted(), there.wanted()), (vec![SKU], Vec::new()));
        here.hear(SKU, vec![("b".to_owned(), there.report(SALE, SKU, NOW, "a.1"))], 1);
        let both = here.top_of_all(SALE, SKU, NOW);
        assert_eq!(
            (listed(&both), both.servers, both.missing),
            (vec![(1, 7, 0), (3, 4, 0), (2, 1, 0)], 2, 0)
        );
        assert_eq!(both.tops.buyers[0].tried[1].name.as_deref(), Some("buyer 3"));
        assert_eq!(both.tops.addresses[1].tried[0].attempts.total(), 12, "one network, the last minute");
        // What nobody can read counts as nothing, and a third has said nothing yet.
        let unreadable = vec![("b".to_owned(), b"{\"buyers\":7}".to_vec())];
        here.hear(SKU, unreadable, 2);
        let alone = here.top_of_all(SALE, SKU, NOW);
        assert_eq!((listed(&alone), alone.servers, alone.missing), (listed(&first), 1, 2));
        // Where nobody carries, nobody is missed.
        let embedded = AllAttempts::default();
        assert_eq!(embedded.top_of_all(SALE, SKU, NOW).missing, 0);
        assert!(embedded.wanted().is_empty());
    }

    #[test]
    fn whoever_is_not_in_a_servers_list_can_have_tried_there_as_often_as_its_last() {
        // Sixty buyers with 3 attempts each: ten of them are in no report.
        let many = server((100..160).map(|buyer| (buyer, 3)));
        let here = server([(1, 9), (159, 2)].into_iter());
        here.top_of_all(SALE, SKU, NOW);
        here.hear(SKU, vec![("b".to_owned(), many.report(SALE, SKU, NOW, "a.1"))], 1);
        let summed = here.top_of_all(SALE, SKU, NOW);
        assert_eq!(listed(&summed)[..2], [(1, 9, 3), (100, 3, 0)]);
        assert_eq!((summed.tops.buyers[0].tried.len(), summed.tops.buyers[0].missed_max), (LISTED_MAX, 3));
    }

    #[test]
    fn a_buyer_who_is_erased_is_forgotten_everywhere() {
        let (here, there) = (server([(1, 2)].into_iter()), server([(1, 5)].into_iter()));
        here.top_of_all(SALE, SKU, NOW);
        here.hear(SKU, vec![("b".to_owned(), there.report(SALE, SKU, NOW, "a.1"))], 1);
        here.forget(BuyerId(1));
        assert!(listed(&here.top_of_all(SALE, SKU, NOW)).is_empty(), "nor what was reported before");
        assert_eq!((here.forgotten(), here.forgotten()), (vec![BuyerId(1)], Vec::new()));
        there.forget_here(BuyerId(1));
        here.hear(SKU, vec![("b".to_owned(), there.report(SALE, SKU, NOW, "a.2"))], 1);
        assert!(listed(&here.top_of_all(SALE, SKU, NOW)).is_empty());
        assert!(there.forgotten().is_empty(), "or it would go round for ever");
    }

    #[test]
    fn no_more_is_wanted_than_can_be_carried() {
        let all = server(std::iter::empty());
        for sku in 0..WANTED_MAX as u64 + 5 {
            all.top_of_all(SALE, SkuId(u32::try_from(sku).unwrap()), NOW);
        }
        assert_eq!(all.wanted().len(), WANTED_MAX);
    }

    #[test]
    fn what_is_heard_is_bounded() {
        let (here, there) = (server([(1, 2)].into_iter()), server([(1, 1)].into_iter()));
        here.top_of_all(SALE, SKU, NOW);
        let report = there.report(SALE, SKU, NOW, "a.1");
        let many = (0..100).map(|run| (run.to_string(), report.clone())).collect();
        here.hear(SKU, many, 100);
        let summed = here.top_of_all(SALE, SKU, NOW);
        assert_eq!((summed.servers, listed(&summed)), (1 + Servers::OTHERS_MAX, vec![(1, 2 + 31, 0)]));
        let mut long = report;
        long.resize(REPORT_BYTES_MAX + 1, b' ');
        here.hear(SKU, vec![("b".to_owned(), long)], 1);
        assert_eq!(here.top_of_all(SALE, SKU, NOW).servers, 1);
        // The longest names there are, written as JSON writes them at their longest.
        let full = server(std::iter::empty());
        let mut counted = full.of_loop();
        for buyer in 0..100 {
            counted.count(super::super::Attempt { name: Some("\u{1}".repeat(128).into()), ..attempt(buyer) });
        }
        let longest = full.report(SALE, SKU, NOW, "a.1");
        assert!(longest.len() <= REPORT_BYTES_MAX, "{}", longest.len());
    }
}
