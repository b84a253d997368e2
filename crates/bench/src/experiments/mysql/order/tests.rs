use super::*;
use crate::load::record::Record;
use crate::load::trial::Flag;

fn trial(repeat: usize, won: u64, valid: bool) -> Trial {
    let mut record = Record::default();
    (record.outcomes.won, record.elapsed) = (won, Duration::from_secs(1));
    let flags = if valid { Vec::new() } else { vec![Flag::Unsent { requests: 1 }] };
    Trial { flags, ..Trial::new(repeat, &Schedule::closed(record.elapsed), &record, None) }
}

fn ramp(steps: &[(Flush, usize, u64)]) -> Ramp {
    let step = |(flush, users, won): &(Flush, usize, u64)| {
        (flush.name().to_owned(), *users, vec![trial(1, *won, true), trial(2, 9_000, false)])
    };
    Ramp { steps: steps.iter().map(step).collect() }
}

#[test]
fn no_order_is_placed_where_it_can_not_be_audited() {
    crate::experiments::refuses_without_token(run);
}

#[test]
fn invalid_trials_have_no_best() {
    let ramp = ramp(&[(Flush::Never, 10, 100), (Flush::Never, 50, 200)]);
    let best = ramp.best(Flush::Never.name());
    let best: Vec<(usize, u64, usize)> =
        best.iter().map(|(trial, users)| (trial.repeat, trial.outcomes.won, *users)).collect();
    assert_eq!(best, [(1, 200, 50)]);
    assert_eq!(ramp.curve(Flush::Never.name()), [(10, 100.0), (50, 200.0)]);
}

#[test]
fn shapes_need_a_margin() {
    for (not, last, wanted) in [
        (1100, 900, [Some(true), Some(true)]),
        (900, 960, [Some(false), Some(false)]),
        (1040, 999, [None, Some(false)]),
        (960, 949, [None, Some(true)]),
    ] {
        let steps =
            [(Flush::EachCommit, 300, 1000), (Flush::EachCommit, 800, last), (Flush::Never, 300, not)];
        let holds: Vec<_> = ramp(&steps).shapes().iter().map(|shape| shape.holds).collect();
        assert_eq!(holds, wanted, "{not} {last}");
    }
}

#[test]
fn shapes_of_a_full_generator_are_undecided() {
    let steps = [
        (Flush::EachCommit, 300, 1000),
        (Flush::EachCommit, 500, 990),
        (Flush::EachCommit, 800, 900),
        (Flush::Never, 300, 1100),
    ];
    let both = Some(true);
    for (full, wanted) in
        [(0, [None, None]), (1, [both, both]), (2, [both, None]), (3, [None, both]), (9, [both, both])]
    {
        let mut ramp = ramp(&steps);
        if let Some(step) = ramp.steps.get_mut(full) {
            step.2[0].usage = limit::tests::case_of("", 1, 0.9).trials[0].usage.clone();
        }
        let shapes = ramp.shapes();
        assert_eq!(shapes.iter().map(|shape| shape.holds).collect::<Vec<_>>(), wanted, "{full}");
        let says_so = |shape: &Shape| shape.measured.contains("the load generator used 90% of a processor");
        assert!(shapes.iter().all(|shape| says_so(shape) == shape.holds.is_none()), "{shapes:?}");
    }
}
