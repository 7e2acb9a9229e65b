//! Clients that query: the rows are those of the items that the model knows, whatever the index
//! that finds them, and a query that is repeated has the same rows and the same charges.

use crate::Checked;
use crate::node::Node;
use crate::spec::{ItemKey, KEYS, Value, VectorKind};
use orrery_engine::request::{PageRequest, QueryRequest, Scope};
use orrery_model::json::parse;
use orrery_model::{Error, Kind};
use std::collections::BTreeMap;

/// The condition of a query.
#[derive(Clone, Copy, Debug)]
enum Condition {
    /// Every item.
    All,
    /// `k` equals a number.
    Equal(i64),
    /// `k` is a number or one of the two after it.
    Between(i64),
    /// An element of an array.
    Tag(u64),
    /// A word of a text.
    Word(&'static str),
}

/// The order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// None that a client may rely on.
    Any,
    /// Ascending `n`.
    ByNumber,
    /// Ascending `k`, then descending `n`.
    Composite,
}

impl Condition {
    fn holds(self, value: &Value) -> bool {
        match self {
            Condition::All => true,
            Condition::Equal(k) => value.k == k,
            Condition::Between(k) => (k..=k + 2).contains(&value.k),
            Condition::Tag(tag) => value.tag() == tag,
            Condition::Word(word) => value.words().contains(&word),
        }
    }

    fn text(self) -> String {
        match self {
            Condition::All => "IS_DEFINED(c.id)".to_owned(),
            Condition::Equal(k) => format!("c.k = {k}"),
            Condition::Between(k) => format!("c.k >= {k} AND c.k < {}", k + 3),
            Condition::Tag(tag) => format!("ARRAY_CONTAINS(c.tags, 't{tag}')"),
            Condition::Word(word) => format!("FullTextContains(c.text, '{word}')"),
        }
    }
}

impl Node<'_> {
    /// Runs a random query twice.
    pub(crate) fn query(&mut self) -> Checked {
        let container = self.random_container();
        if self.models[container].spec.vector.is_some() && self.random.chance(30) {
            return self.query_nearest(container);
        }
        let has_full_text = self.models[container].spec.has_full_text;
        let k = self.random.below(6) as i64;
        let condition = match self.random.below(if has_full_text { 6 } else { 5 }) {
            0 => Condition::All,
            1 => Condition::Equal(k),
            2 | 3 => Condition::Between(k),
            4 => Condition::Tag(k as u64),
            _ => Condition::Word(self.random.pick(&["red", "rods", "radar", "green"])),
        };
        let key = self
            .random
            .chance(30)
            .then(|| self.random.below(u64::from(KEYS)) as u8);
        if self.random.chance(25) {
            return self.query_count(container, condition, key);
        }
        let spec = &self.models[container].spec;
        let order = match self.random.below(4) {
            0 if spec.policy == 0 => Order::ByNumber,
            1 if spec.has_composite => Order::Composite,
            _ => Order::Any,
        };
        let by = match order {
            Order::Any => "",
            Order::ByNumber => " ORDER BY c.n",
            Order::Composite => " ORDER BY c.k ASC, c.n DESC",
        };
        let text = format!("SELECT VALUE c.n FROM c WHERE {}{by}", condition.text());
        let Some(rows) = self.rows_twice(container, &text, key)? else {
            return Ok(());
        };
        self.check_rows(container, condition, key, order, &rows)
    }

    /// Checks the rows of a query by what the model knows.
    fn check_rows(
        &mut self,
        container: usize,
        condition: Condition,
        key: Option<u8>,
        order: Order,
        rows: &[u64],
    ) -> Checked {
        let (must, may) = self.expected(container, condition, key);
        let mut known: BTreeMap<u64, Value> = BTreeMap::new();
        for value in may {
            known.insert(value.n, value);
        }
        let mut found = rows.to_vec();
        found.sort_unstable();
        if found.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(format!("a row occurs twice: {rows:?}"));
        }
        if let Some(n) = found.iter().find(|n| !known.contains_key(n)) {
            return Err(format!(
                "{condition:?} of c{container}: {n} is no row, of {rows:?}"
            ));
        }
        if let Some(n) = must.iter().find(|n| !found.contains(n)) {
            return Err(format!(
                "{condition:?} of c{container}: {n} is missing in {rows:?}"
            ));
        }
        let place = |n: &u64| match order {
            Order::Any => (0, 0),
            Order::ByNumber => (0, *n as i64),
            Order::Composite => (known[n].k, -(*n as i64)),
        };
        match rows.is_sorted_by_key(place) {
            true => Ok(()),
            false => Err(format!("{rows:?} are not in the order {order:?}")),
        }
    }

    /// Counts rows by an index.
    fn query_count(&mut self, container: usize, condition: Condition, key: Option<u8>) -> Checked {
        let text = format!("SELECT VALUE COUNT(1) FROM c WHERE {}", condition.text());
        let Some(rows) = self.rows_twice(container, &text, key)? else {
            return Ok(());
        };
        let (must, may) = self.expected(container, condition, key);
        let [count] = rows[..] else {
            return Err(format!("a count has the rows {rows:?}"));
        };
        match (must.len()..=may.len()).contains(&(count as usize)) {
            true => Ok(()),
            false => Err(format!(
                "{condition:?} of c{container} counts {count}, not {} to {}",
                must.len(),
                may.len()
            )),
        }
    }

    /// Returns the writes that must be rows, and the values that may be.
    fn expected(
        &self,
        container: usize,
        condition: Condition,
        key: Option<u8>,
    ) -> (Vec<u64>, Vec<Value>) {
        let (mut must, mut may) = (Vec::new(), Vec::new());
        let model = &self.models[container];
        let in_scope = |item: &ItemKey| key.is_none_or(|key| item.key == key);
        for item in ItemKey::all().filter(in_scope) {
            let states = model.visible(item, self.now());
            if let [Some(value)] = &states[..]
                && condition.holds(value)
            {
                must.push(value.n);
            }
            may.extend(
                states
                    .into_iter()
                    .flatten()
                    .filter(|value| condition.holds(value)),
            );
        }
        (must, may)
    }

    /// Asks for the items that are nearest to a vector.
    fn query_nearest(&mut self, container: usize) -> Checked {
        let wanted = [9.5, 11.5, 8.5, 6.5];
        let text =
            format!("SELECT TOP 3 VALUE c.n FROM c ORDER BY VectorDistance(c.v, {wanted:?})");
        let Some(rows) = self.rows_twice(container, &text, None)? else {
            return Ok(());
        };
        let (must, may) = self.expected(container, Condition::All, None);
        let distance = |value: &Value| -> f64 {
            let pairs = value.vector().into_iter().zip(wanted);
            pairs.map(|(a, b)| (a - b) * (a - b)).sum()
        };
        let mut distances = Vec::new();
        for row in &rows {
            let Some(value) = may.iter().find(|value| value.n == *row) else {
                return Err(format!("{row} is none of the nearest items"));
            };
            distances.push(distance(value));
        }
        if !distances.is_sorted() {
            return Err(format!("{rows:?} are not in the order of {distances:?}"));
        }
        let is_exact = self.models[container].spec.vector == Some(VectorKind::Flat);
        if is_exact && must.len() == may.len() {
            let mut all: Vec<f64> = may.iter().map(distance).collect();
            all.sort_by(f64::total_cmp);
            all.truncate(3);
            if all != distances {
                return Err(format!(
                    "the nearest are at {all:?}, and {rows:?} at {distances:?}"
                ));
            }
        }
        Ok(())
    }

    /// Returns the rows of a query that is run twice; `None` if the store or a split keeps it from
    /// being run.
    fn rows_twice(
        &mut self,
        container: usize,
        text: &str,
        key: Option<u8>,
    ) -> Checked<Option<Vec<u64>>> {
        let page_size = self.random.pick(&[1, 3, 100]);
        let first = self.rows(container, text, key, page_size)?;
        let second = self.rows(container, text, key, page_size)?;
        self.note(format!("c{container} {key:?} {text}: {first:?}"));
        if first != second {
            return Err(format!("two runs of {text} differ: {first:?}, {second:?}"));
        }
        Ok(first.map(|(rows, _)| rows))
    }

    /// Returns the rows and the charge of each page.
    fn rows(
        &mut self,
        container: usize,
        text: &str,
        key: Option<u8>,
        page_size: usize,
    ) -> Checked<Option<(Vec<u64>, Vec<u64>)>> {
        let handle = self.handle(container)?;
        let model = &self.models[container];
        let scope = key.map_or(Scope::Everything, |key| {
            Scope::Key(model.spec.partition_key(key))
        });
        let page = PageRequest {
            max_items: Some(page_size),
            ..PageRequest::default()
        };
        let mut query = QueryRequest {
            cross_partition: true,
            ..QueryRequest::of(text, Vec::new(), page)
        };
        let (mut rows, mut charges) = (Vec::new(), Vec::new());
        for _ in 0..1_000 {
            let outcome = self.engine.query(&handle, &scope, &query, None);
            let error = outcome.result.as_ref().err().map(Error::kind);
            // No partition admits a query while a split completes, so its charge is on no account.
            if error != Some(Kind::CompletingSplit) {
                self.note_charge(container, outcome.charge);
            }
            let page = match outcome.result {
                Ok(page) => page.page,
                Err(error) => {
                    self.check_failure(container, &error)
                        .map_err(|message| format!("{text}: {message}"))?;
                    return Ok(None);
                }
            };
            charges.push(outcome.charge.0);
            for row in &page.rows {
                let number = parse(row).ok().and_then(|row| row.as_i64());
                let number = number.and_then(|number| u64::try_from(number).ok());
                rows.push(number.ok_or_else(|| format!("{text} has the row {row:?}"))?);
            }
            match page.continuation {
                None => return Ok(Some((rows, charges))),
                Some(continuation) => query.page.continuation = Some(continuation),
            }
        }
        Err(format!("{text} never ends"))
    }
}
