//! Queries by their form: the text without its values, with count, charge and partitions.
//!
//! Promises: at most [`FORMS`] forms are kept; a new form replaces the least used one, and among
//! several of those the one that was not used for the longest time. No value of a query is kept.

use super::histogram::Histogram;
use crate::request::{Charge, QueryForm};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Forms that a container keeps.
const FORMS: usize = 200;
/// Bytes of a text that are kept.
const TEXT_BYTES: usize = 1024;
/// The first query of a form, and one of this many after it, is asked for index advice.
const ADVICE_EVERY: u64 = 64;

/// An answered page of a query.
#[derive(Debug)]
pub(crate) struct QueryRun<'a> {
    /// The hash of the form.
    pub form: u64,
    /// The text without values.
    pub text: &'a str,
    /// The time of the answer, in milliseconds since 1970.
    pub now_ms: u64,
    /// The charge.
    pub charge: Charge,
    /// The duration in microseconds.
    pub micros: u64,
    /// Physical partitions that were asked.
    pub partitions: u64,
    /// Items that were loaded.
    pub retrieved: u64,
    /// Rows that were returned.
    pub output: u64,
    /// True if the query is not for a single logical partition.
    pub crosses_partitions: bool,
    /// The index advice (JSON), if it was asked for.
    pub index_advice: Option<String>,
}

/// The forms of a container's queries.
#[derive(Debug, Default)]
pub(crate) struct QueryForms(HashMap<u64, Entry>);

#[derive(Debug, Default)]
struct Entry {
    text: String,
    count: u64,
    charge: u64,
    charges: Histogram,
    micros: Histogram,
    partitions: u64,
    retrieved: u64,
    output: u64,
    crosses_partitions: bool,
    index_advice: Option<String>,
    last_ms: u64,
}

impl QueryForms {
    /// Adds a page.
    pub(crate) fn add(&mut self, run: QueryRun<'_>) {
        if self.0.len() >= FORMS && !self.0.contains_key(&run.form) {
            self.make_room();
        }
        let entry = self.0.entry(run.form).or_default();
        if entry.count == 0 {
            let kept = |(at, c): &(usize, char)| at + c.len_utf8() <= TEXT_BYTES;
            entry.text = run
                .text
                .char_indices()
                .take_while(kept)
                .map(|(_, c)| c)
                .collect();
        }
        entry.count += 1;
        entry.charge += run.charge.0;
        entry.charges.add(run.charge.0);
        entry.micros.add(run.micros);
        entry.partitions += run.partitions;
        entry.retrieved += run.retrieved;
        entry.output += run.output;
        entry.crosses_partitions = run.crosses_partitions;
        entry.last_ms = run.now_ms;
        entry.index_advice = run.index_advice.or_else(|| entry.index_advice.take());
    }

    fn make_room(&mut self) {
        let least = self
            .0
            .iter()
            .min_by_key(|(form, entry)| (entry.count, entry.last_ms, **form));
        if let Some(form) = least.map(|(form, _)| *form) {
            self.0.remove(&form);
        }
    }

    /// Returns true if the next query of a form is to be asked for index advice.
    pub(crate) fn wants_advice(&self, form: u64) -> bool {
        self.0
            .get(&form)
            .is_none_or(|entry| entry.count % ADVICE_EVERY == 0)
    }

    /// Returns all forms, the most expensive in total first.
    pub(crate) fn all(&self) -> Vec<QueryForm> {
        let mut all: Vec<QueryForm> = self.0.values().map(Entry::shown).collect();
        all.sort_by(|a, b| (Reverse(a.charge), &a.text).cmp(&(Reverse(b.charge), &b.text)));
        all
    }
}

impl Entry {
    fn shown(&self) -> QueryForm {
        QueryForm {
            text: self.text.clone(),
            count: self.count,
            charge: Charge(self.charge),
            charge_p50: Charge(self.charges.percentile(50)),
            charge_p95: Charge(self.charges.percentile(95)),
            micros_p50: self.micros.percentile(50),
            micros_p99: self.micros.percentile(99),
            partitions: self.partitions,
            retrieved: self.retrieved,
            output: self.output,
            crosses_partitions: self.crosses_partitions,
            index_advice: self.index_advice.clone(),
            last_ms: self.last_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(form: u64, now_ms: u64, charge: u64) -> QueryRun<'static> {
        QueryRun {
            form,
            text: "SELECT * FROM c WHERE c.n = ?",
            now_ms,
            charge: Charge(charge),
            micros: charge * 10,
            partitions: 2,
            retrieved: 5,
            output: 1,
            crosses_partitions: true,
            index_advice: None,
        }
    }

    #[test]
    fn pages_of_a_form_are_summed() {
        let mut forms = QueryForms::default();
        (1..=100).for_each(|n| forms.add(run(7, n, n * 100)));
        let all = forms.all();
        assert_eq!(all.len(), 1);
        let QueryForm {
            count,
            charge,
            charge_p50,
            charge_p95,
            micros_p99,
            partitions,
            ..
        } = all[0];
        assert_eq!((count, charge, partitions), (100, Charge(505_000), 200));
        assert!(
            (5_000..=5_625).contains(&charge_p50.0) && (9_500..=10_688).contains(&charge_p95.0),
            "{all:?}"
        );
        assert!((99_000..=111_375).contains(&micros_p99), "{micros_p99}");
    }

    #[test]
    fn the_least_used_makes_room_and_of_those_the_oldest() {
        let mut forms = QueryForms::default();
        let most = FORMS as u64;
        (0..most).for_each(|form| forms.add(run(form, form, 1)));
        (0..most)
            .filter(|form| *form != 5 && *form != 9)
            .for_each(|form| forms.add(run(form, 1_000, 1)));
        forms.add(run(most, 2_000, 1));
        assert_eq!(forms.0.len(), FORMS);
        assert!(
            !forms.0.contains_key(&5) && forms.0.contains_key(&9) && forms.0.contains_key(&most)
        );
    }

    #[test]
    fn advice_is_wanted_first_and_then_now_and_again_and_the_last_is_kept() {
        let mut forms = QueryForms::default();
        assert!(forms.wants_advice(1));
        forms.add(QueryRun {
            index_advice: Some("first".into()),
            ..run(1, 1, 1)
        });
        assert!(!forms.wants_advice(1));
        (1..ADVICE_EVERY).for_each(|n| forms.add(run(1, n, 1)));
        assert!(forms.wants_advice(1));
        assert_eq!(forms.all()[0].index_advice.as_deref(), Some("first"));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let mut forms = QueryForms::default();
        let text = "é".repeat(TEXT_BYTES);
        forms.add(QueryRun {
            text: &text,
            ..run(1, 1, 1)
        });
        assert_eq!(forms.all()[0].text.len(), TEXT_BYTES);
        let text = format!("a{text}");
        forms.add(QueryRun {
            text: &text,
            ..run(2, 1, 1)
        });
        assert!(
            forms
                .all()
                .iter()
                .any(|form| form.text.len() == TEXT_BYTES - 1)
        );
    }
}
