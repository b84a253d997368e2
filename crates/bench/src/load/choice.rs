//! Who asks for what: seeded random numbers, and how requests spread over keys, goods and buyers.
//!
//! Pure. A hot SKU and bots belong to the workload, not to the schedule, so the drivers call this while they make
//! their requests; the schedule takes its random arrival times from the same [`Random`]. The same seed gives the same
//! requests on every machine. Nothing here is secret or fit for cryptography.

/// Steele and others' SplitMix64: eight bytes of state, and any seed is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Another sequence: drawing from one does not shift the other.
    pub fn fork(&mut self) -> Self {
        Self(self.next_u64())
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 to `count - 1`, each as likely as the others within `count / 2^64`.
    ///
    /// # Panics
    /// If there is nothing to choose from.
    pub fn below(&mut self, count: u64) -> u64 {
        assert!(count > 0, "nothing to choose from");
        // The upper half of the product: no division, and the low bits of a weak generator don't matter.
        let product = u128::from(self.next_u64()) * u128::from(count);
        u64::try_from(product >> 64).expect("the upper half of 128 bits")
    }

    /// 0 (included) to 1 (excluded).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// With this probability.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Exponential with mean 1: the spacing of a Poisson process of rate 1.
    pub fn exponential(&mut self) -> f64 {
        -(-self.unit()).ln_1p()
    }
}

/// Which of `count` keys (goods, SKUs, queues) a request is for: numbers from 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Choice {
    Uniform {
        count: u64,
    },
    /// This share of the requests, 0 to 1, goes to key 0, and the rest evenly to the others. 1: one key only.
    Hot {
        count: u64,
        share: f64,
    },
    /// Key `n` is asked for in proportion to `1 / (n + 1)^exponent`.
    Zipf(Zipf),
}

impl Choice {
    /// # Panics
    /// If there is no key, the share is not within 0 to 1, or a share of less than 1 has nowhere else to go.
    pub fn hot(count: u64, share: f64) -> Self {
        assert!((0.0..=1.0).contains(&share), "a share is 0 to 1, not {share}");
        assert!(count > 1 || (count == 1 && share >= 1.0), "the rest needs another key");
        Self::Hot { count, share }
    }

    pub fn next(&self, random: &mut Random) -> u64 {
        match *self {
            Self::Uniform { count } => random.below(count),
            Self::Hot { share, .. } if random.happens(share) => 0,
            Self::Hot { count, .. } => 1 + random.below(count - 1),
            Self::Zipf(zipf) => zipf.next(random),
        }
    }
}

/// Rejection-inversion after Hörmann and Derflinger (1996): constant time and memory for any number of keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zipf {
    count: u64,
    exponent: f64,
    /// The integral of the density at 1.5, less the mass of the first key.
    first: f64,
    /// The integral at `count + 0.5`.
    last: f64,
    /// Points this close below a key are always accepted.
    near: f64,
}

impl Zipf {
    /// # Panics
    /// If there is no key or the exponent is not positive.
    pub fn new(count: u64, exponent: f64) -> Self {
        assert!(count > 0 && exponent.is_finite() && exponent > 0.0, "Zipf of {count} keys by {exponent}");
        let mut zipf = Self { count, exponent, first: 0.0, last: 0.0, near: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(count as f64 + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn next(&self, random: &mut Random) -> u64 {
        loop {
            let mass = self.last + random.unit() * (self.first - self.last);
            let point = self.inverse(mass);
            let rank = point.round().clamp(1.0, self.count as f64);
            if rank - point <= self.near || mass >= self.integral(rank + 0.5) - self.density(rank) {
                return whole(rank) - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.exponent) * log;
        // exp_m1(p) / p has a gap at 0, which is the exponent 1.
        log * if power.abs() > 1e-8 { power.exp_m1() / power } else { 1.0 + power / 2.0 }
    }

    fn inverse(&self, mass: f64) -> f64 {
        let power = (mass * (1.0 - self.exponent)).max(-1.0);
        (mass * if power.abs() > 1e-8 { power.ln_1p() / power } else { 1.0 - power / 2.0 }).exp()
    }
}

/// Numbers of any kind, each as often as its weight says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weighted {
    /// The number, and the sum of all weights up to it.
    up_to: Vec<(u64, u64)>,
}

impl Weighted {
    /// # Panics
    /// If no number has a weight.
    pub fn new(weights: Vec<(u64, u64)>) -> Self {
        let mut sum = 0_u64;
        let mut up_to = weights;
        for (_, weight) in &mut up_to {
            sum = sum.saturating_add(*weight);
            *weight = sum;
        }
        assert!(sum > 0, "nothing to choose from");
        Self { up_to }
    }

    pub fn next(&self, random: &mut Random) -> u64 {
        let (_, sum) = *self.up_to.last().expect("a sum above 0 has a last part");
        let drawn = random.below(sum);
        self.up_to[self.up_to.partition_point(|(_, up_to)| *up_to <= drawn)].0
    }
}

/// Buyers and programs that buy: this share of the requests comes from bots.
///
/// A bot asks again and again under few names, so limits by buyer and by rate must stop it; a person asks once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crowd {
    /// 0 to 1.
    pub bots_share: f64,
    /// Names that the bots have between them.
    pub bots: u64,
    people: u64,
}

/// The sender of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buyer {
    /// Numbered from 0, each once.
    Person(u64),
    /// Numbered from 0, each again and again.
    Bot(u64),
}

impl Crowd {
    /// # Panics
    /// If the share is not within 0 to 1, or there is a share and no bot.
    pub fn new(bots_share: f64, bots: u64) -> Self {
        assert!((0.0..=1.0).contains(&bots_share), "a share is 0 to 1, not {bots_share}");
        assert!(bots > 0 || bots_share == 0.0, "a share of the requests needs a bot to send it");
        Self { bots_share, bots, people: 0 }
    }

    pub fn next(&mut self, random: &mut Random) -> Buyer {
        if random.happens(self.bots_share) {
            return Buyer::Bot(random.below(self.bots));
        }
        self.people += 1;
        Buyer::Person(self.people - 1)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rank is a whole number from 1 to a u64"
)]
fn whole(rank: f64) -> u64 {
    rank as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 200_000;

    fn shares(choice: Choice, count: usize) -> Vec<f64> {
        let mut random = Random::new(42);
        let mut counts = vec![0_u64; count];
        for _ in 0..DRAWS {
            counts[usize::try_from(choice.next(&mut random)).unwrap()] += 1;
        }
        counts.iter().map(|count| *count as f64 / DRAWS as f64).collect()
    }

    fn check(choice: Choice, wanted: &[f64]) {
        for (key, (share, wanted)) in shares(choice, wanted.len()).iter().zip(wanted).enumerate() {
            // Four standard deviations: the draws are the same each time, so this never fails by chance.
            let bound = 4.0 * (wanted * (1.0 - wanted) / DRAWS as f64).sqrt();
            assert!((share - wanted).abs() <= bound, "{choice:?}, key {key}: {share}, not {wanted}");
        }
    }

    #[test]
    fn keys_are_asked_for_as_often_as_said() {
        check(Choice::Uniform { count: 4 }, &[0.25; 4]);
        check(Choice::hot(5, 0.8), &[0.8, 0.05, 0.05, 0.05, 0.05]);
        check(Choice::hot(1, 1.0), &[1.0]);
        for exponent in [0.5, 1.0, 1.3] {
            let weights: Vec<f64> = (1..=20).map(|rank| f64::from(rank).powf(-exponent)).collect();
            let total: f64 = weights.iter().sum();
            let wanted: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
            check(Choice::Zipf(Zipf::new(20, exponent)), &wanted);
        }
    }

    #[test]
    fn weights_are_kept_and_what_has_none_is_never_drawn() {
        let (weighted, mut random) = (Weighted::new(vec![(30, 3), (31, 0), (32, 1)]), Random::new(7));
        let drawn: Vec<u64> = (0..DRAWS).map(|_| weighted.next(&mut random)).collect();
        let share = |number| drawn.iter().filter(|of| **of == number).count() as f64 / DRAWS as f64;
        // Four standard deviations, as above.
        assert!((share(30) - 0.75).abs() < 0.004 && (share(32) - 0.25).abs() < 0.004, "{}", share(30));
        assert!(share(31) == 0.0);
    }

    #[test]
    fn one_seed_gives_one_sequence() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| random.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        // The first output of the published algorithm for seed 0.
        assert_eq!(draw(0)[0], 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn exponential_has_its_mean_and_its_tail() {
        let mut random = Random::new(1);
        let draws: Vec<f64> = (0..DRAWS).map(|_| random.exponential()).collect();
        let mean = draws.iter().sum::<f64>() / DRAWS as f64;
        let late = draws.iter().filter(|draw| **draw > 2.0).count() as f64 / DRAWS as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!((late - (-2.0_f64).exp()).abs() < 0.004, "{late}");
        assert!(draws.iter().all(|draw| *draw >= 0.0 && draw.is_finite()));
    }

    #[test]
    fn people_come_once_and_bots_again_and_again() {
        let (mut crowd, mut random) = (Crowd::new(0.3, 5), Random::new(3));
        let (mut people, mut bots) = (0, [0_u64; 5]);
        for _ in 0..10_000 {
            match crowd.next(&mut random) {
                Buyer::Person(number) => {
                    assert_eq!(number, people);
                    people += 1;
                }
                Buyer::Bot(number) => bots[usize::try_from(number).unwrap()] += 1,
            }
        }
        let requests = bots.iter().sum::<u64>();
        assert!((2_800..3_200).contains(&requests), "{requests}");
        assert!(bots.iter().all(|requests| *requests > 500), "{bots:?}");
    }
}
