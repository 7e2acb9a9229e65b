//! Queries by their form: the text without its values, with count, charge and partitions.
//!
//! Promises: at most [`FORMS`] forms are kept; a new form replaces the least used one, and among
//! several of those the one that was not used for the longest time. No value of a query is kept,
//! only its structure: the numbers of TOP, OFFSET and LIMIT, the size of pages, and for a sample of
//! the pages the logical partition and the first item.

use super::histogram::Histogram;
use super::operations::Sample;
use crate::request::{Charge, QueryForm, QuerySample, RecordedQuery};
use orrery_model::partition_key::Epk;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Forms that a container keeps.
const FORMS: usize = 200;
/// Bytes of a text that are kept.
const TEXT_BYTES: usize = 1024;
/// The first query of a form, and one of this many after it, is asked for index advice.
const ADVICE_EVERY: u64 = 64;
/// Pages that are sampled of each form, so that rare forms have some.
const SAMPLED_OF_FORM: usize = 16;
/// Pages that are sampled of all forms together, so that frequent forms have many.
const SAMPLED: usize = 1_024;
/// Numbers of TOP, OFFSET and LIMIT that are kept of each form.
const COUNTS: usize = 8;

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
    /// The structure of the request.
    pub shape: QueryShape<'a>,
}

/// The structure of a query's request, without its values.
#[derive(Debug, Default)]
pub(crate) struct QueryShape<'a> {
    /// The numbers of TOP, OFFSET and LIMIT.
    pub counts: Vec<u64>,
    /// The wanted rows of a page.
    pub page_items: Option<usize>,
    /// True if the page continues another.
    pub is_continued: bool,
    /// True if the request named the partition key.
    pub names_key: bool,
    /// True if the request named a physical partition.
    pub names_range: bool,
    /// The logical partition, if the page was for a single one.
    pub key: Option<&'a Epk>,
    /// The number of the first item that was loaded.
    pub item: Option<u64>,
}

impl QueryShape<'_> {
    fn sample(&self) -> QuerySample {
        QuerySample {
            key: self.key.cloned(),
            item: self.item,
        }
    }
}

/// The forms of a container's queries.
#[derive(Debug, Default)]
pub(crate) struct QueryForms {
    forms: HashMap<u64, Entry>,
    /// A sample of the pages of all forms, each with the hash of its form.
    samples: Sample<(u64, QuerySample)>,
}

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
    is_complete: bool,
    counts: Vec<u64>,
    page_items: Option<usize>,
    first_pages: u64,
    pages_of_key: u64,
    pages_of_range: u64,
    samples: Sample<QuerySample>,
}

impl QueryForms {
    /// Adds a page.
    pub(crate) fn add(&mut self, run: QueryRun<'_>) {
        if self.forms.len() >= FORMS && !self.forms.contains_key(&run.form) {
            self.make_room();
        }
        let shape = &run.shape;
        self.samples.add(SAMPLED, || (run.form, shape.sample()));
        let entry = self.forms.entry(run.form).or_default();
        if entry.count == 0 {
            let kept = |(at, c): &(usize, char)| at + c.len_utf8() <= TEXT_BYTES;
            entry.text = run
                .text
                .char_indices()
                .take_while(kept)
                .map(|(_, c)| c)
                .collect();
            entry.is_complete = entry.text.len() == run.text.len();
        }
        entry.add_shape(&run.shape);
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
            .forms
            .iter()
            .min_by_key(|(form, entry)| (entry.count, entry.last_ms, **form));
        if let Some(form) = least.map(|(form, _)| *form) {
            self.forms.remove(&form);
        }
    }

    /// Returns true if the next query of a form is to be asked for index advice.
    pub(crate) fn wants_advice(&self, form: u64) -> bool {
        self.forms
            .get(&form)
            .is_none_or(|entry| entry.count % ADVICE_EVERY == 0)
    }

    /// Returns all forms, the most expensive in total first.
    pub(crate) fn all(&self) -> Vec<QueryForm> {
        let mut all: Vec<QueryForm> = self.forms.values().map(Entry::shown).collect();
        all.sort_by(|a, b| (Reverse(a.charge), &a.text).cmp(&(Reverse(b.charge), &b.text)));
        all
    }
}

impl QueryForms {
    /// Returns all forms as they can be repeated, the most expensive in total first.
    pub(crate) fn recorded(&self) -> Vec<RecordedQuery> {
        let mut samples: HashMap<u64, Vec<QuerySample>> = HashMap::new();
        for (form, sample) in self.samples.kept() {
            samples.entry(*form).or_default().push(sample.clone());
        }
        let mut all = Vec::with_capacity(self.forms.len());
        for (form, entry) in &self.forms {
            let mut recorded = entry.recorded();
            if let Some(more) = samples.remove(form)
                && more.len() > recorded.samples.len()
            {
                recorded.samples = more;
            }
            all.push(recorded);
        }
        all.sort_by(|a, b| (Reverse(a.charge), &a.text).cmp(&(Reverse(b.charge), &b.text)));
        all
    }
}

impl Entry {
    /// Adds the structure of a page.
    fn add_shape(&mut self, shape: &QueryShape<'_>) {
        self.counts.clear();
        self.counts.extend(shape.counts.iter().take(COUNTS));
        self.page_items = shape.page_items;
        self.first_pages += u64::from(!shape.is_continued);
        self.pages_of_key += u64::from(shape.names_key);
        self.pages_of_range += u64::from(shape.names_range);
        self.samples.add(SAMPLED_OF_FORM, || shape.sample());
    }

    fn recorded(&self) -> RecordedQuery {
        RecordedQuery {
            text: self.text.clone(),
            is_complete: self.is_complete,
            counts: self.counts.clone(),
            page_items: self.page_items,
            pages: self.count,
            first_pages: self.first_pages,
            pages_of_key: self.pages_of_key,
            pages_of_range: self.pages_of_range,
            charge: Charge(self.charge),
            partitions: self.partitions,
            samples: self.samples.kept().to_vec(),
        }
    }

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
            shape: QueryShape::default(),
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
        assert_eq!(forms.forms.len(), FORMS);
        assert!(
            !forms.forms.contains_key(&5)
                && forms.forms.contains_key(&9)
                && forms.forms.contains_key(&most)
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
