//! Whether draws are fair: how evenly places fall, over when one joined and over who it is, by Pearson's chi-square.
//!
//! A bound is passed by chance once in ten thousand times, upwards and downwards: places that fall more evenly than chance
//! would are no draw either.

use super::places::{Places, seed};
use crate::load::choice::Random;

/// Entries of each draw. No power of two, so that the order has to walk.
const ENTRIES: u32 = 1_500;
/// Entries and places are counted by tenths of the line.
const TENTHS: usize = 10;
/// Buyers, evenly along the line, of whom each is counted alone.
const BUYERS: usize = 100;
/// Of the normal distribution, what is passed once in ten thousand times.
const ONCE_IN_10_000: f64 = 3.719;

/// A statistic, and between which two values it lies but for once in 5,000 times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Evenness {
    pub(super) chi_square: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Evenness {
    fn of(chi_square: f64, freedom: usize) -> Self {
        let freedom = freedom as f64;
        // Wilson and Hilferty: the cube root of a chi-square is nearly normal.
        let variance = 2.0 / (9.0 * freedom);
        let at = |deviation: f64| freedom * (1.0 - variance + deviation * variance.sqrt()).powi(3);
        Self { chi_square, least: at(-ONCE_IN_10_000), most: at(ONCE_IN_10_000) }
    }

    pub(super) fn is_fair(&self) -> bool {
        (self.least..=self.most).contains(&self.chi_square)
    }
}

/// Over the order of joining: tenth of the line by tenth of the places.
pub(super) type OverJoining = Evenness;
/// Over buyers: each by tenth of the places.
pub(super) type OverBuyers = Evenness;

/// Of so many draws, each of a secret and a root of its own.
pub(super) fn of_draws(draws: u32, random_seed: u64) -> (OverJoining, OverBuyers) {
    let mut random = Random::new(random_seed);
    let mut hash = || std::array::from_fn(|_| random.next_u64().to_be_bytes()[0]);
    measured(draws, || {
        let order = Places::new(&seed(&hash(), &hash()), ENTRIES);
        move |number| order.place_of(number)
    })
}

fn measured<F: Fn(u32) -> u32>(draws: u32, mut draw: impl FnMut() -> F) -> (OverJoining, OverBuyers) {
    let tenth = |of: u32| (of - 1) as usize * TENTHS / ENTRIES as usize;
    let (mut joining, mut buyers) = ([[0_u32; TENTHS]; TENTHS], vec![[0_u32; TENTHS]; BUYERS]);
    let apart = ENTRIES as usize / BUYERS;
    for _ in 0..draws {
        let place_of = draw();
        for number in 1..=ENTRIES {
            let at = tenth(place_of(number));
            joining[tenth(number)][at] += 1;
            if (number as usize).is_multiple_of(apart) {
                buyers[number as usize / apart - 1][at] += 1;
            }
        }
    }
    // Each draw uses every place once, which makes tenths more even than chance alone, by this.
    let without_return = f64::from(ENTRIES - 1) / f64::from(ENTRIES);
    let joining = chi_square(&joining) * without_return;
    (
        Evenness::of(joining, (TENTHS - 1) * (TENTHS - 1)),
        Evenness::of(chi_square(&buyers), BUYERS * (TENTHS - 1)),
    )
}

/// Rows of counts that are expected to be even.
fn chi_square(rows: &[[u32; TENTHS]]) -> f64 {
    let of_row = |row: &[u32; TENTHS]| {
        let expected = f64::from(row.iter().sum::<u32>()) / TENTHS as f64;
        row.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum::<f64>()
    };
    rows.iter().map(of_row).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_tables() {
        // Of 81 and 900 degrees of freedom, once in ten thousand, by integration: 137.1 and 1,066.4.
        let (small, large) = (Evenness::of(0.0, 81), Evenness::of(0.0, 900));
        assert!(
            (small.most - 137.1).abs() < 0.3 && (large.most - 1_066.4).abs() < 0.3,
            "{small:?} {large:?}"
        );
        assert!(small.least > 40.0 && !small.is_fair());
    }

    #[test]
    fn draws_are_fair_by_any_seed() {
        for seed in 1..=3 {
            let (joining, buyers) = of_draws(100, seed);
            assert!(joining.is_fair() && buyers.is_fair(), "{seed}: {joining:?} {buyers:?}");
        }
    }

    /// Each is less than a hundredth off from chance, in what its statistic looks at.
    #[test]
    fn a_draw_that_favours_somebody_is_found() {
        let mut random = Random::new(1);
        let mut key =
            move || Places::new(&std::array::from_fn(|_| random.next_u64().to_be_bytes()[0]), ENTRIES);
        // In one draw of a hundred, the order of joining.
        let mut draws = 0;
        let (joining, _) = measured(500, || {
            draws += 1;
            let (order, in_order) = (key(), draws % 100 == 0);
            move |number| if in_order { number } else { order.place_of(number) }
        });
        assert!(!joining.is_fair(), "{joining:?}");
        // One buyer of the hundred has the first place in a third of the draws.
        let (_, buyers) = measured(500, || {
            draws += 1;
            let (order, favoured) = (key(), draws % 3 == 0);
            move |number| if favoured && number == 750 { 1 } else { order.place_of(number) }
        });
        assert!(!buyers.is_fair(), "{buyers:?}");
        // Everybody is moved on by as much in each draw: too even to be chance.
        let (joining, _) = measured(500, || {
            draws += 1;
            let by = draws * 3 % ENTRIES;
            move |number| (number - 1 + by) % ENTRIES + 1
        });
        assert!(!joining.is_fair(), "{joining:?}");
    }
}
