//! The price of requests: the one file with request-unit numbers.
//!
//! A price is a function of counted work, never of time, so the same request costs the same on
//! every machine. Storage work is counted in *units* (21 of them are one RU; a committed write pays
//! on each of four replicas), query work in 1/10,000 RU. The sum is rounded once, half up, to
//! hundredths. The numbers are fitted to public charges of the service; the profile
//! [`Profile::Y2019`] holds the prices of spring 2019, at which the blog article was measured.

use crate::request::Charge;
use orrery_model::limits;
use orrery_model::work::{QueryWork, Step, Work};

/// The pricing model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Prices since 2020.
    #[default]
    Modern,
    /// Prices of spring 2019.
    Y2019,
}

/// Units in one request unit.
const UNITS_PER_RU: u64 = 21;
/// Replicas that pay for a committed write.
const REPLICAS: u64 = 4;
/// Parts of a request unit in which sums are kept: 1/10,000 RU.
const FINE: u64 = 10_000;

/// Kilobytes of JSON text, units of a read, units of a write on one replica.
const SIZE_TABLE: [(f64, f64, f64); 12] = [
    (1.0, 21.0, 26.0),
    (2.0, 22.0, 33.0),
    (4.0, 24.0, 35.0),
    (8.0, 28.0, 37.0),
    (16.0, 35.0, 50.0),
    (32.0, 46.0, 59.0),
    (64.0, 100.0, 119.0),
    (128.0, 209.0, 253.0),
    (256.0, 426.0, 516.0),
    (512.0, 860.0, 969.0),
    (1024.0, 3064.0, 3281.0),
    (2048.0, 6128.0, 6562.0),
];

/// Query prices in 1/10,000 RU.
struct QueryPrices {
    request: u64,
    seek: u64,
    scan_term: u64,
    walk: u64,
    vector: u64,
    vector_kb: u64,
    loaded: u64,
    loaded_kb: u64,
    out: u64,
    out_kb: u64,
    projected: u64,
    tuple: u64,
    aggregate: u64,
    udf_call: u64,
}

/// Prices of comparing a vector in 1/10,000 RU, for each and for each kilobyte. The documentation
/// of the service has less than 40 RU for 40,000 to 50,000 quantised vectors of 1,536 components,
/// which have 384 bytes here.
const VECTOR: u64 = 2;
const VECTOR_KB: u64 = 18;

const MODERN: QueryPrices = QueryPrices {
    request: 27_000,
    seek: 1_000,
    scan_term: 115,
    walk: 40,
    vector: VECTOR,
    vector_kb: VECTOR_KB,
    loaded: 145,
    loaded_kb: 62,
    out: 95,
    out_kb: 10,
    projected: 6,
    tuple: 14,
    aggregate: 0,
    udf_call: 100,
};

const Y2019: QueryPrices = QueryPrices {
    request: 27_000,
    seek: 1_000,
    scan_term: 115,
    walk: 50,
    vector: VECTOR,
    vector_kb: VECTOR_KB,
    loaded: 400,
    loaded_kb: 1_700,
    out: 0,
    out_kb: 0,
    projected: 100,
    tuple: 14,
    aggregate: 2_000,
    udf_call: 100,
};

/// The addition for one execution of a script, and the share that its further writes are charged.
const SCRIPT: u64 = 22_000;
const FURTHER_WRITE_PERCENT: u64 = 13;
/// The addition for each operation of a patch to the price of the replacement.
const PATCH_OPERATION: u64 = 4_000;
/// Units of a request that was refused for lack of budget. The client sees them; no budget pays
/// them.
const THROTTLED_UNITS: u64 = 8;

impl Profile {
    /// Returns the profile with a name as on the command line.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "modern" => Some(Profile::Modern),
            "y2019" => Some(Profile::Y2019),
            _ => None,
        }
    }

    /// Returns true if aggregates are answered from the index, without loading the items.
    pub fn counts_from_index(self) -> bool {
        self == Profile::Modern
    }

    /// Returns the charge of a request's work.
    pub fn price(self, work: &Work) -> Charge {
        self.price_all(&work.steps)
    }

    /// Returns the charge of steps together, rounded once.
    pub fn price_all(self, steps: &[Step]) -> Charge {
        rounded(steps.iter().map(|step| self.fine(step)).sum())
    }

    /// Returns the charge of one step alone.
    pub fn price_of(self, step: &Step) -> Charge {
        rounded(self.fine(step))
    }

    /// Returns the price of passing index entries in 1/10,000 RU, for the planner.
    pub fn cost_of_walking(self, entries: u64) -> u64 {
        self.query_prices().walk * entries
    }

    /// Returns the price of loading an item of so many bytes in 1/10,000 RU, for the planner.
    pub fn cost_of_loading(self, bytes: u64) -> u64 {
        let p = self.query_prices();
        p.loaded + p.loaded_kb * bytes / 1024
    }

    /// Returns the price of building a row in 1/10,000 RU, for the planner. A sort builds every
    /// row, a walk hands whole items through.
    pub fn cost_of_building(self) -> u64 {
        self.query_prices().projected
    }

    fn query_prices(self) -> QueryPrices {
        match self {
            Profile::Modern => MODERN,
            Profile::Y2019 => Y2019,
        }
    }

    /// Returns true if the work of a query costs as much as a partition may spend in a second, so
    /// that the page ends.
    pub fn is_a_full_page(self, work: &QueryWork) -> bool {
        self.fine(&Step::Query(*work)) >= u64::from(limits::PARTITION_RU_PER_SECOND) * FINE
    }

    /// Returns the price of a step in 1/10,000 RU.
    fn fine(self, step: &Step) -> u64 {
        if let Step::Script { inner, executions } = step {
            return self.script(inner, *executions);
        }
        let (mut all_units, mut fine) = (0, 0);
        self.visit(step, &mut |_, _, amount| match amount {
            Amount::Units(units) => all_units += units,
            Amount::Fine(more) => fine += more,
        });
        // Units are converted together: 21 does not divide 10,000, so rounding each part would show
        // in the last digit.
        units(all_units) + fine
    }

    /// Calls `part` with each part of a step's price: name, count, price in 1/10,000 RU.
    pub(super) fn parts(self, step: &Step, part: &mut impl FnMut(&'static str, u64, u64)) {
        let Step::Script { inner, executions } = step else {
            let fine = |amount| match amount {
                Amount::Units(amount) => units(amount),
                Amount::Fine(fine) => fine,
            };
            return self.visit(step, &mut |what, count, amount| {
                part(what, count, fine(amount))
            });
        };
        part(
            "scripts run",
            u64::from(*executions),
            SCRIPT * u64::from(*executions),
        );
        let (writes, others): (Vec<&Step>, Vec<&Step>) =
            inner.iter().partition(|step| is_write(step));
        let (most_expensive, further) = self.most_expensive_first(&writes);
        others
            .into_iter()
            .chain(most_expensive)
            .for_each(|step| self.flat_parts(step, part));
        if !further.is_empty() {
            part(
                "further writes of scripts",
                further.len() as u64,
                self.share_of(&further),
            );
        }
    }

    /// Does the same as [`Profile::parts`] for the steps of a script, which contain no script.
    fn flat_parts(self, step: &Step, part: &mut impl FnMut(&'static str, u64, u64)) {
        self.visit(step, &mut |what, count, amount| match amount {
            Amount::Units(amount) => part(what, count, units(amount)),
            Amount::Fine(fine) => part(what, count, fine),
        });
    }

    fn visit(self, step: &Step, part: &mut impl FnMut(&'static str, u64, Amount)) {
        use Amount::{Fine, Units};
        match step {
            Step::Read { bytes } => part("items read", 1, Units(self.read_units(*bytes))),
            Step::ReadNothing => part("reads of nothing", 1, Units(UNITS_PER_RU)),
            Step::MetadataRead => part("resources read", 1, Units(UNITS_PER_RU)),
            Step::Write { bytes, terms } => {
                part(
                    "bodies written",
                    1,
                    Units(REPLICAS * self.write_units(*bytes)),
                );
                part(
                    "index entries written",
                    u64::from(*terms),
                    Units(REPLICAS * u64::from(*terms)),
                );
            }
            Step::Replace {
                old_bytes,
                new_bytes,
                changed_terms,
                patch_operations,
            } => {
                let bodies = self.write_units(*old_bytes) + self.write_units(*new_bytes);
                part("bodies removed and written", 2, Units(REPLICAS * bodies));
                let terms = u64::from(*changed_terms);
                part(
                    "index entries removed and written",
                    terms,
                    Units(REPLICAS * terms),
                );
                if *patch_operations > 0 {
                    part(
                        "operations of patches",
                        u64::from(*patch_operations),
                        Fine(PATCH_OPERATION * u64::from(*patch_operations)),
                    );
                }
            }
            Step::Refused { bytes, terms } => {
                part("bodies looked at", 1, Units(self.write_units(*bytes)));
                if *terms > 0 {
                    part(
                        "index entries looked at",
                        u64::from(*terms),
                        Units(u64::from(*terms)),
                    );
                }
            }
            Step::Feed { items } => {
                let read: u64 = items.iter().map(|bytes| self.read_units(*bytes)).sum();
                part("items read", items.len() as u64, Units(read));
                if read < UNITS_PER_RU {
                    part("empty pages", 1, Units(UNITS_PER_RU - read));
                }
            }
            Step::MetadataWrite { bytes } => part(
                "resources written",
                1,
                Units(REPLICAS * self.write_units(*bytes)),
            ),
            Step::Query(work) => self.visit_query(work, part),
            Step::SecondReplica(of) => part("reads of a second replica", 1, Fine(self.fine(of))),
            // The price of a script is not the sum of its parts, see `script`.
            Step::Script { .. } => {}
            Step::Throttled => part("requests throttled", 1, Units(THROTTLED_UNITS)),
        }
    }

    fn visit_query(self, work: &QueryWork, part: &mut impl FnMut(&'static str, u64, Amount)) {
        let p = self.query_prices();
        let mut each = |what, price: u64, count: u64| {
            if count > 0 {
                part(what, count, Amount::Fine(price * count));
            }
        };
        each("requests of queries", p.request, 1);
        each("equality values looked up", p.seek, work.seeks);
        each("index values scanned", p.scan_term, work.scan_terms);
        each("index entries passed", p.walk, work.walked_entries);
        each("vectors compared", p.vector, work.compared_vectors);
        each("items loaded", p.loaded, work.loaded_items);
        each("rows returned", p.out, work.returned_rows);
        each("rows projected", p.projected, work.projected_rows);
        each("array elements iterated", p.tuple, work.array_elements);
        each("aggregates", p.aggregate, work.aggregates);
        each("calls of functions", p.udf_call, work.udf_calls);
        let mut bytes = |what, price: u64, bytes: u64| {
            if bytes > 0 {
                part(what, bytes, Amount::Fine(price * bytes / 1024));
            }
        };
        bytes(
            "bytes of vectors compared",
            p.vector_kb,
            work.compared_vector_bytes,
        );
        bytes("bytes loaded", p.loaded_kb, work.loaded_bytes);
        bytes("bytes returned", p.out_kb, work.returned_bytes);
    }

    /// Returns the price of a script: the most expensive write in full, every other write at a
    /// share, all other steps in full.
    fn script(self, inner: &[Step], executions: u32) -> u64 {
        let (writes, others): (Vec<&Step>, Vec<&Step>) =
            inner.iter().partition(|step| is_write(step));
        let (most_expensive, further) = self.most_expensive_first(&writes);
        let whole: u64 = others
            .into_iter()
            .chain(most_expensive)
            .map(|step| self.fine(step))
            .sum();
        SCRIPT * u64::from(executions) + whole + self.share_of(&further)
    }

    /// Returns the most expensive of some writes, and the sum of the others.
    fn most_expensive_first<'s>(self, writes: &[&'s Step]) -> (Option<&'s Step>, Vec<&'s Step>) {
        let mut writes = writes.to_vec();
        writes.sort_by_key(|write| self.fine(write));
        (writes.pop(), writes)
    }

    /// Returns the price of the further writes of a script together.
    fn share_of(self, further: &[&Step]) -> u64 {
        further.iter().map(|write| self.fine(write)).sum::<u64>() * FURTHER_WRITE_PERCENT / 100
    }

    fn read_units(self, bytes: usize) -> u64 {
        let kb = self.table_kb(bytes);
        interpolate(kb, |row| row.1)
    }

    fn write_units(self, bytes: usize) -> u64 {
        let kb = bytes as f64 / 1024.0;
        // This price jumps at a size; all others grow evenly.
        if kb <= 1.0 {
            return SIZE_TABLE[0].2 as u64;
        }
        if kb <= 2.0 {
            return SIZE_TABLE[1].2 as u64;
        }
        interpolate(self.table_kb(bytes), |row| row.2)
    }

    /// Items were stored as text in 2019, at about twice today's size.
    fn table_kb(self, bytes: usize) -> f64 {
        let kb = bytes as f64 / 1024.0;
        if self == Profile::Y2019 && kb > 1.0 {
            kb * 2.0
        } else {
            kb
        }
    }
}

/// Rounds half up to hundredths of a request unit.
fn rounded(fine: u64) -> Charge {
    Charge((fine + FINE / 200) / (FINE / 100))
}

/// Part of a price.
enum Amount {
    /// Storage work.
    Units(u64),
    /// Query work, in 1/10,000 RU.
    Fine(u64),
}

fn is_write(step: &Step) -> bool {
    matches!(step, Step::Write { .. } | Step::Replace { .. })
}

/// Converts storage units to 1/10,000 RU.
fn units(units: u64) -> u64 {
    units * FINE / UNITS_PER_RU
}

fn interpolate(kb: f64, column: impl Fn(&(f64, f64, f64)) -> f64) -> u64 {
    let (first, last) = (&SIZE_TABLE[0], &SIZE_TABLE[SIZE_TABLE.len() - 1]);
    if kb <= first.0 {
        return column(first) as u64;
    }
    let between = SIZE_TABLE.windows(2).find(|w| kb <= w[1].0);
    let exact = match between {
        Some(w) => {
            column(&w[0]) + (column(&w[1]) - column(&w[0])) * (kb - w[0].0) / (w[1].0 - w[0].0)
        }
        None => column(last) * kb / last.0,
    };
    exact.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(profile: Profile, step: Step, charge: &str) {
        assert_eq!(
            profile.price(&Work { steps: vec![step] }).to_string(),
            charge
        );
    }

    const KB: usize = 1024;

    /// Charges that the service's documents and samples print.
    #[test]
    #[expect(clippy::too_many_lines, reason = "a line for each charge")]
    fn published_charges_are_met_to_the_digit() {
        let both = [Profile::Modern, Profile::Y2019];
        for profile in both {
            check(profile, Step::Read { bytes: KB }, "1");
            check(profile, Step::ReadNothing, "1");
            check(
                profile,
                Step::Write {
                    bytes: 500,
                    terms: 4,
                },
                "5.71",
            );
            check(
                profile,
                Step::Write {
                    bytes: 500,
                    terms: 20,
                },
                "8.76",
            );
            check(
                profile,
                Step::Write {
                    bytes: 500,
                    terms: 19,
                },
                "8.57",
            );
            check(
                profile,
                Step::Write {
                    bytes: 500,
                    terms: 11,
                },
                "7.05",
            );
            check(
                profile,
                Step::Write {
                    bytes: 500,
                    terms: 3,
                },
                "5.52",
            );
            check(
                profile,
                Step::Replace {
                    old_bytes: 500,
                    new_bytes: 500,
                    changed_terms: 2,
                    patch_operations: 0,
                },
                "10.29",
            );
            check(
                profile,
                Step::Refused {
                    bytes: 500,
                    terms: 0,
                },
                "1.24",
            );
            check(
                profile,
                Step::Refused {
                    bytes: 500,
                    terms: 9,
                },
                "1.67",
            );
            check(profile, Step::MetadataWrite { bytes: 300 }, "4.95");
            check(profile, Step::MetadataWrite { bytes: 1300 }, "6.29");
        }
        for (kb, ru) in [
            (4, "1.14"),
            (8, "1.33"),
            (16, "1.67"),
            (32, "2.19"),
            (64, "4.76"),
            (512, "40.95"),
            (2048, "291.81"),
        ] {
            check(Profile::Modern, Step::Read { bytes: kb * KB }, ru);
        }
        check(Profile::Modern, Step::Throttled, "0.38");
    }

    #[test]
    fn a_patch_pays_for_its_operations_too() {
        let patch = Step::Replace {
            old_bytes: 1000,
            new_bytes: 1000,
            changed_terms: 4,
            patch_operations: 2,
        };
        check(Profile::Modern, patch.clone(), "11.47");
        check(Profile::Modern, patch.into_refused(), "1.43");
    }

    #[test]
    fn a_second_replica_costs_what_the_first_one_does() {
        let query = QueryWork {
            seeks: 1,
            loaded_items: 1,
            loaded_bytes: 1024,
            returned_rows: 1,
            ..QueryWork::default()
        };
        for (read, charge) in [
            (Step::Read { bytes: 1000 }, "2"),
            (Step::Read { bytes: 2 * KB }, "2.1"),
            (
                Step::Feed {
                    items: vec![1000, 1000],
                },
                "4",
            ),
            (Step::Query(query), "5.66"),
            (Step::ReadNothing, "1"),
            (
                Step::Write {
                    bytes: 500,
                    terms: 4,
                },
                "5.71",
            ),
        ] {
            let mut steps = vec![read];
            Step::add_second_replica_reads(&mut steps, 0);
            assert_eq!(Profile::Modern.price(&Work { steps }).to_string(), charge);
        }
    }

    #[test]
    fn a_script_pays_its_most_expensive_write_in_full() {
        let inner = vec![
            Step::Read { bytes: 900 },
            Step::Replace {
                old_bytes: 900,
                new_bytes: 900,
                changed_terms: 4,
                patch_operations: 0,
            },
            Step::Write {
                bytes: 600,
                terms: 13,
            },
        ];
        // 2.2 + 1 + 10.67 + 0.13 * 7.43
        check(
            Profile::Y2019,
            Step::Script {
                inner,
                executions: 1,
            },
            "14.83",
        );
    }

    #[test]
    fn a_query_pays_for_seeks_walks_and_items() {
        let work = QueryWork {
            seeks: 2,
            walked_entries: 20,
            loaded_items: 20,
            loaded_bytes: 20 * 1178,
            ..QueryWork::default()
        };
        check(Profile::Y2019, Step::Query(work), "7.71");
    }
}
