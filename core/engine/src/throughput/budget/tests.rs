use super::*;
use proptest::prelude::*;

const NOW: u64 = 1_767_225_600_000;
const HIGH: Option<Priority> = Some(Priority::High);
const LOW: Option<Priority> = Some(Priority::Low);

fn ru(ru: u64) -> Charge {
    Charge(ru * 100)
}

/// A budget of so many RU/s.
fn budget(ru: u64) -> Budget {
    Budget::new(ru * 1000, false)
}

/// Sends requests of `charge` one after the other until one is refused; how many were admitted, and
/// the wait.
fn drain(budget: &mut Budget, now: u64, charge: Charge, priority: Option<Priority>) -> (u64, u64) {
    for admitted in 0.. {
        match budget.admit(now, priority) {
            Ok(()) => budget.take(now, charge, priority),
            Err(wait) => return (admitted, wait),
        }
    }
    unreachable!("a budget ends")
}

#[test]
fn a_second_gives_its_budget_and_the_next_one_gives_it_again() {
    let mut budget = budget(400);
    assert_eq!(drain(&mut budget, NOW, ru(10), None), (40, 1000));
    assert_eq!(drain(&mut budget, NOW + 400, ru(10), None), (0, 600));
    assert_eq!(drain(&mut budget, NOW + 999, ru(10), None), (0, 1));
    assert_eq!(drain(&mut budget, NOW + 1000, ru(10), None), (40, 1000));
}

#[test]
fn what_a_second_leaves_is_lost() {
    let mut budget = budget(400);
    budget.take(NOW, ru(1), None);
    assert_eq!(drain(&mut budget, NOW + 1000, ru(10), None).0, 40);
    assert_eq!(drain(&mut budget, NOW + 60_000, ru(10), None).0, 40);
}

#[test]
fn a_request_more_expensive_than_a_second_is_served_once_and_paid_off() {
    let mut budget = budget(400);
    assert_eq!(budget.admit(NOW, None), Ok(()));
    budget.take(NOW, ru(1_000), None);
    // 600 RU of debt: the second and third second pay 800 of it.
    assert_eq!(budget.admit(NOW, None), Err(2_000));
    assert_eq!(budget.admit(NOW + 1_500, None), Err(500));
    assert_eq!(drain(&mut budget, NOW + 2_000, ru(10), None), (20, 1000));
}

#[test]
fn a_debt_of_whole_seconds_leaves_nothing_of_the_last_of_them() {
    let mut budget = budget(400);
    budget.take(NOW, ru(800), None);
    assert_eq!(budget.admit(NOW, None), Err(2_000));
    assert_eq!(budget.admit(NOW + 1_999, None), Err(1));
    assert_eq!(budget.admit(NOW + 2_000, None), Ok(()));
}

#[test]
fn a_second_spent_late_does_not_lend_to_ten_that_follow_it() {
    let mut budget = budget(400);
    budget.take(NOW, Charge(1), None);
    let mut admitted = drain(&mut budget, NOW + 999, ru(1), None).0;
    for second in 1..=10 {
        admitted += drain(&mut budget, NOW + second * 1000, ru(1), None).0;
    }
    // Eleven seconds' budget was there within 9.001 s; 4,040 RU are what 10.1 s bring.
    assert_eq!(admitted, 4_040);
    let wait = budget
        .admit(NOW + 10_000, None)
        .expect_err("ten seconds have had their share");
    assert!(budget.clone().admit(NOW + 10_000 + wait - 1, None).is_err());
    assert!(
        budget.admit(NOW + 10_000 + wait, None).is_ok(),
        "the wait is {wait}"
    );
}

#[test]
fn a_rate_that_changes_keeps_what_was_spent() {
    let mut budget = budget(400);
    budget.take(NOW, ru(300), None);
    assert_eq!(budget.set_rate(NOW, 1_000_000).sum(), 0);
    assert_eq!(drain(&mut budget, NOW, ru(10), None).0, 70);
    assert_eq!(
        budget.set_rate(NOW, 400_000).sum(),
        600_000,
        "what was spent lately under what it lost"
    );
    assert_eq!(drain(&mut budget, NOW, ru(10), None), (0, 2_000));
    assert_eq!(budget.rate(), 400_000);
}

#[test]
fn a_clock_that_is_set_back_or_leaps_harms_nothing() {
    let mut budget = budget(400);
    budget.take(NOW, ru(400), None);
    assert_eq!(budget.admit(NOW - 3_600_000, None), Err(1_000));
    assert_eq!(drain(&mut budget, NOW - 3_599_000, ru(10), None).0, 40);
    assert_eq!(drain(&mut budget, NOW + 3_600_000, ru(10), None).0, 40);
    assert_eq!(
        budget.admit(NOW + 3_599_999, None),
        Err(1_001),
        "one that comes late is not a clock set back"
    );
}

#[test]
fn burst_capacity_keeps_five_minutes_and_spends_them_at_three_thousand() {
    let mut budget = Budget::new(400_000, true);
    assert_eq!(
        drain(&mut budget, NOW, ru(10), None).0,
        40,
        "nothing is kept yet"
    );
    assert_eq!(budget.admit(NOW + 1_000, None), Ok(()));
    assert_eq!(budget.banked(), 0);
    // The second at which it begins is its own; nine were not used.
    assert_eq!(drain(&mut budget, NOW + 11_000, ru(10), None).0, 40 + 260);
    assert_eq!(budget.banked(), (10 * 400 - 2_600) * 1000);
    assert_eq!(drain(&mut budget, NOW + 12_000, ru(10), None).0, 40 + 140);
    assert_eq!(drain(&mut budget, NOW + 13_000, ru(10), None).0, 40);
    assert_eq!(budget.admit(NOW + 3_600_000, None), Ok(()));
    assert_eq!(budget.banked(), 300 * 400 * 1000);
}

#[test]
fn what_has_three_thousand_keeps_nothing() {
    let mut budget = Budget::new(3_000_000, true);
    budget.take(NOW, ru(1), None);
    assert_eq!(drain(&mut budget, NOW + 60_000, ru(100), None).0, 30);
    assert_eq!(budget.banked(), 0);
}

#[test]
fn low_priority_gets_what_high_priority_leaves() {
    let mut budget = budget(400);
    // Without requests of high priority low ones have everything.
    assert_eq!(drain(&mut budget, NOW, ru(10), LOW).0, 40);
    assert_eq!(drain(&mut budget, NOW, ru(10), HIGH), (0, 1000));
    // They were refused once; from then on they come first.
    assert_eq!(budget.admit(NOW + 1_000, LOW), Err(1_000));
    for _ in 0..30 {
        assert_eq!(budget.admit(NOW + 1_000, HIGH), Ok(()));
        budget.take(NOW + 1_000, ru(10), HIGH);
    }
    // 300 RU a second are theirs, and low ones have the other 100.
    assert_eq!(drain(&mut budget, NOW + 2_000, ru(10), LOW), (10, 1_000));
    assert_eq!(drain(&mut budget, NOW + 2_000, ru(10), HIGH).0, 30);
    // After a pause nothing is expected of them.
    assert_eq!(drain(&mut budget, NOW + 9_000, ru(10), LOW).0, 40);
}

#[test]
fn what_is_split_adds_up_and_what_is_merged_again_is_what_it_was() {
    let mut whole = Budget::new(1_000_000, true);
    whole.take(NOW, ru(1), None);
    whole.advance(NOW + 5_000);
    whole.take(NOW + 5_000, Charge(123_457), HIGH);
    let amounts = |budget: &Budget| {
        let Spending {
            spent,
            bank,
            from_bank,
            high,
            high_expected,
            recent,
        } = &budget.spending;
        [
            *spent,
            *bank,
            *from_bank,
            *high,
            *high_expected,
            recent.sum(),
        ]
    };
    let before = amounts(&whole);
    assert_eq!(
        before,
        [
            1_000_000,
            4_999_000 - 234_570,
            234_570,
            1_234_570,
            0,
            1_235_570
        ]
    );
    let parts = whole.clone().split(&[333_334, 333_333, 333_333]);
    let mut sums = [0; 6];
    for part in &parts {
        sums.iter_mut()
            .zip(amounts(part))
            .for_each(|(sum, amount)| *sum += amount);
        // A third each, to the thousandths that are left over.
        assert!(
            amounts(part)
                .iter()
                .zip(before)
                .all(|(part, all)| (part - all / 3).abs() < 5_000),
            "{parts:?}"
        );
    }
    assert_eq!(sums, before);
    let again = parts.into_iter().reduce(|mut one, other| {
        one.merge(NOW + 5_000, other);
        one
    });
    let again = again.expect("three parts");
    assert_eq!(
        (amounts(&again), again.rate, again.began),
        (before, whole.rate, whole.began)
    );
}

#[test]
fn a_second_of_merged_budgets_ends_with_the_last_of_theirs() {
    let (mut one, mut other) = (budget(400), budget(400));
    one.take(NOW, ru(400), None);
    other.take(NOW + 600, ru(300), None);
    one.merge(NOW + 700, other);
    assert_eq!(drain(&mut one, NOW + 700, ru(10), None), (10, 900));
    assert_eq!(drain(&mut one, NOW + 1_600, ru(10), None).0, 80);
}

#[test]
fn an_overdraft_stays_with_the_budget_that_made_it() {
    let mut budget = budget(1_000);
    budget.take(NOW, ru(50_000), None);
    let lately = budget.set_rate(NOW, 750_000);
    assert_eq!(
        lately.sum(),
        10_100_000 / 4,
        "a quarter of what ten seconds bring at most"
    );
    let mut other = Budget::new(250_000, false);
    other.remember(lately);
    assert_eq!(
        other.admit(NOW, None),
        Err(10_100),
        "they have had their ten seconds"
    );
    // 50,000 RU at 750 a second.
    assert_eq!(budget.admit(NOW, None), Err(66_000));
}

#[test]
fn a_rate_that_changes_after_a_second_is_that_of_the_next() {
    let mut budget = budget(400);
    budget.take(NOW, ru(400), None);
    budget.set_rate(NOW + 1_000, 300_000);
    assert_eq!(drain(&mut budget, NOW + 1_000, ru(10), None).0, 30);
}

/// One request: milliseconds after the one before, and hundredths of a request unit.
fn requests() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![6 => 0..4u64, 3 => 0..40u64, 1 => 0..3_000u64];
    let charge = prop_oneof![8 => 100..1_500u64, 1 => 1..50_000u64];
    prop::collection::vec((gap, charge), 1..3_000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_ten_seconds_give_more_than_they_bring_and_a_hundredth(requests in requests(), rate in 100..2_000u64) {
        let mut budget = budget(rate);
        let (mut now, mut served) = (NOW, Vec::new());
        for (gap, charge) in requests {
            now += gap;
            if budget.admit(now, None).is_ok() {
                budget.take(now, Charge(charge), None);
                served.push((now, charge));
            }
        }
        for (at, (begin, _)) in served.iter().enumerate() {
            let within: Vec<u64> =
                served[at..].iter().take_while(|(now, _)| *now < begin + 10_000).map(|(_, charge)| *charge).collect();
            let sum: u64 = within.iter().sum();
            let last = within.last().copied().unwrap_or_default();
            // One request may overdraw; what is overdrawn is paid off before the next is admitted.
            prop_assert!(sum - last < rate * 1_010 + 1, "{sum} hundredths at {rate} RU/s");
        }
    }

    #[test]
    fn a_refused_request_is_admitted_after_the_wait_and_not_before(requests in requests(), rate in 100..2_000u64) {
        let mut budget = budget(rate);
        let mut now = NOW;
        for (gap, charge) in requests {
            now += gap;
            match budget.admit(now, None) {
                Ok(()) => budget.take(now, Charge(charge), None),
                Err(wait) => {
                    prop_assert!(wait >= 1);
                    prop_assert!(budget.clone().admit(now + wait - 1, None).is_err());
                    prop_assert!(budget.clone().admit(now + wait, None).is_ok());
                }
            }
        }
    }

    #[test]
    fn a_load_that_lasts_gets_what_is_provisioned(rate in 100..2_000u64, over in 102..400u64, charge in 100..1_000u64) {
        let mut budget = budget(rate);
        let (mut served, mut offered) = (0, 0);
        for now in NOW..NOW + 30_000 {
            // So much is offered by now.
            let due = (now - NOW + 1) * rate * over / 1_000;
            while offered + charge <= due {
                offered += charge;
                if budget.admit(now, None).is_ok() {
                    budget.take(now, Charge(charge), None);
                    served += charge;
                }
            }
        }
        let provisioned = 30 * rate * 100;
        prop_assert!(served * 100 >= provisioned * 98, "{served} of {provisioned}");
        prop_assert!(served <= provisioned + provisioned / 50 + charge, "{served} of {provisioned}");
    }
}
