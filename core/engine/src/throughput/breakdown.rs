//! The parts of a charge, on demand.
//!
//! The parts come from the same table as the price (`prices.rs`), so the two can differ only by
//! rounding, and rounding is a part of its own: the parts of a charge always add up to the charge.

use super::Profile;
use crate::Engine;
use crate::request::{Charge, ChargePart};
use orrery_model::work::Work;

/// Units of a part (1/10,000 RU) in a hundredth of a request unit.
const PER_HUNDREDTH: i64 = 100;

impl Engine {
    /// Returns the parts of a charge: one for each kind of work in the order of first occurrence,
    /// and one for rounding if rounding changed the sum.
    pub fn charge_parts(&self, work: &Work, charge: Charge) -> Vec<ChargePart> {
        parts(self.profile, work, charge)
    }
}

fn parts(profile: Profile, work: &Work, charge: Charge) -> Vec<ChargePart> {
    let mut parts: Vec<ChargePart> = Vec::new();
    let mut add = |what, count, fine: u64| {
        let fine = i64::try_from(fine).unwrap_or(i64::MAX);
        match parts.iter_mut().find(|part| part.what == what) {
            Some(part) => {
                (part.count, part.fine) = (part.count + count, part.fine.saturating_add(fine))
            }
            None => parts.push(ChargePart { what, count, fine }),
        }
    };
    for step in &work.steps {
        profile.parts(step, &mut add);
    }
    let whole = i64::try_from(charge.0)
        .unwrap_or(i64::MAX)
        .saturating_mul(PER_HUNDREDTH);
    let mut rounding = whole;
    for part in &parts {
        rounding = rounding.saturating_sub(part.fine);
    }
    if rounding != 0 {
        parts.push(ChargePart {
            what: "rounding",
            count: 1,
            fine: rounding,
        });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::work::{QueryWork, Step};

    fn shown(profile: Profile, steps: Vec<Step>) -> Vec<(&'static str, u64, i64)> {
        let work = Work { steps };
        let charge = profile.price(&work);
        let parts = parts(profile, &work, charge);
        assert_eq!(
            parts.iter().map(|part| part.fine).sum::<i64>(),
            charge.0 as i64 * 100
        );
        parts
            .iter()
            .map(|part| (part.what, part.count, part.fine))
            .collect()
    }

    #[test]
    fn a_write_pays_for_its_body_and_its_index_entries() {
        let write = |terms| Step::Write { bytes: 500, terms };
        let one = shown(Profile::Modern, vec![write(4)]);
        assert_eq!(
            one,
            [
                ("bodies written", 1, 49_523),
                ("index entries written", 4, 7_619),
                ("rounding", 1, -42)
            ]
        );
        let two = shown(Profile::Modern, vec![write(4), write(6)]);
        assert_eq!(
            two[..2],
            [
                ("bodies written", 2, 99_046),
                ("index entries written", 10, 19_047)
            ]
        );
    }

    #[test]
    fn a_query_pays_for_what_it_counted() {
        let work = QueryWork {
            seeks: 2,
            loaded_items: 3,
            loaded_bytes: 2048,
            returned_rows: 3,
            ..QueryWork::default()
        };
        let parts = shown(Profile::Modern, vec![Step::Query(work)]);
        assert_eq!(
            parts,
            [
                ("requests of queries", 1, 27_000),
                ("equality values looked up", 2, 2_000),
                ("items loaded", 3, 435),
                ("rows returned", 3, 285),
                ("bytes loaded", 2048, 124),
                ("rounding", 1, -44),
            ]
        );
    }

    #[test]
    fn a_script_pays_its_further_writes_in_part() {
        let inner = vec![
            Step::Read { bytes: 900 },
            Step::Replace {
                old_bytes: 900,
                new_bytes: 900,
                changed_terms: 4,
                patch_operations: 1,
            },
            Step::Write {
                bytes: 600,
                terms: 13,
            },
        ];
        let parts = shown(
            Profile::Y2019,
            vec![Step::Script {
                inner,
                executions: 1,
            }],
        );
        let names: Vec<&str> = parts.iter().map(|(what, ..)| *what).collect();
        let expected = [
            "scripts run",
            "items read",
            "bodies removed and written",
            "index entries removed and written",
            "operations of patches",
            "further writes of scripts",
        ];
        assert_eq!(names[..6], expected);
        // 13 % of 7.4285 RU
        assert_eq!(parts[5], ("further writes of scripts", 1, 9_657));
    }
}
