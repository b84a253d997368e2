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

/// Which of `count` goods a request is for, numbered from 0: this share of the requests, 0 to 1, is for the first, and the
/// rest evenly for the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hot {
    count: u64,
    share: f64,
}

impl Hot {
    /// # Panics
    /// If there is nothing to choose from, the share is not within 0 to 1, or a share of less than 1 has nowhere else to go.
    pub fn new(count: u64, share: f64) -> Self {
        assert!((0.0..=1.0).contains(&share), "a share is 0 to 1, not {share}");
        assert!(count > 1 || (count == 1 && share >= 1.0), "the rest needs another key");
        Self { count, share }
    }

    pub fn next(self, random: &mut Random) -> u64 {
        if random.happens(self.share) { 0 } else { 1 + random.below(self.count - 1) }
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

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 200_000;

    #[test]
    fn goods_are_asked_for_as_often_as_said() {
        for (hot, wanted) in
            [(Hot::new(5, 0.8), &[0.8, 0.05, 0.05, 0.05, 0.05][..]), (Hot::new(1, 1.0), &[1.0])]
        {
            let mut random = Random::new(42);
            let mut counts = vec![0_u64; wanted.len()];
            (0..DRAWS).for_each(|_| counts[usize::try_from(hot.next(&mut random)).unwrap()] += 1);
            for (key, (count, wanted)) in counts.iter().zip(wanted).enumerate() {
                let share = *count as f64 / DRAWS as f64;
                // Four standard deviations: the draws are the same each time, so this never fails by chance.
                let bound = 4.0 * (wanted * (1.0 - wanted) / DRAWS as f64).sqrt();
                assert!((share - wanted).abs() <= bound, "{hot:?}, {key}: {share}, not {wanted}");
            }
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
