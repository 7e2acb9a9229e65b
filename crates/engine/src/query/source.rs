//! The candidates of a query over one or many partitions, as the query's source.
//!
//! Without ORDER BY the partitions are asked one after the other, each in natural order, and only as far as needed. With
//! an ORDER BY that their indexes serve they are merged; ties are broken by number, then by range. A position says where
//! the last candidate stood: which range, and where in it.

use super::access::{Access, Ask};
use super::cursor::{Cursor, Found, Spot, compare_spots};
use crate::catalog::Container;
use crate::partition::Partition;
use orrery_model::Error;
use orrery_model::partition_key::EpkRange;
use orrery_model::work::QueryWork;
use orrery_sql::{Candidate, QueryError, Source};
use orrery_storage::Snapshot;

/// A partition to be asked.
pub struct Target<'a> {
    /// The partition.
    pub partition: &'a Partition,
    /// What is read of it.
    pub snapshot: Box<dyn Snapshot>,
    /// The stretch of the hash space wanted, if not all of it.
    pub within: Option<EpkRange>,
}

/// Candidates of several partitions.
pub struct Candidates<'a> {
    container: &'a Container,
    targets: &'a [Target<'a>],
    ask: Box<dyn Fn(&'a Target<'a>) -> Ask<'a> + 'a>,
    cursors: Vec<Option<Cursor<'a>>>,
    merged: bool,
    descending: bool,
    current: usize,
    last: Option<(u32, Spot)>,
    now: u64,
}

impl<'a> Candidates<'a> {
    /// Candidates from `after` on. With ORDER BY all partitions are opened; if one of them cannot walk in order, none
    /// does.
    ///
    /// # Errors
    /// What the store reports; 400 for a position that makes no sense.
    pub fn open(
        container: &'a Container,
        targets: &'a [Target<'a>],
        ask: impl Fn(&'a Target<'a>) -> Ask<'a> + 'a,
        after: &[u8],
        now: u64,
    ) -> orrery_model::Result<Self> {
        let after = if after.is_empty() { None } else { Some(read_position(after)?) };
        let mut this = Candidates {
            container,
            targets,
            ask: Box::new(ask),
            cursors: targets.iter().map(|_| None).collect(),
            merged: false,
            descending: false,
            current: 0,
            last: after.clone().flatten(),
            now,
        };
        let ordered = targets.first().map(|t| (this.ask)(t)).is_some_and(|ask| !ask.query.order().is_empty());
        if ordered {
            this.open_merged()?;
        } else if let Some((range, _)) = &this.last {
            this.current = targets.iter().position(|t| t.partition.id == *range).ok_or_else(foreign_position)?;
        }
        Ok(this)
    }

    fn open_merged(&mut self) -> orrery_model::Result<()> {
        self.merged = true;
        let mut asks: Vec<Ask<'a>> = self.targets.iter().map(|t| (self.ask)(t)).collect();
        self.descending = asks.first().and_then(|a| a.query.order().first()).is_some_and(|key| key.descending);
        let mut chosen = self.choose(&asks)?;
        if chosen.iter().any(Access::walks_in_order) && !chosen.iter().all(Access::is_ordered) {
            asks.iter_mut().for_each(|ask| ask.walk = Some(true));
            chosen = self.choose(&asks)?;
        }
        // What is sorted is counted, not placed: it begins anew on every page.
        let in_order = chosen.iter().all(Access::is_ordered);
        for (i, (ask, access)) in asks.into_iter().zip(chosen).enumerate() {
            let target = &self.targets[i];
            // Numbers are unique in a container: behind the last spot is the same place in every range.
            let after = self.last.as_ref().map(|(_, spot)| spot).filter(|_| in_order);
            let cursor =
                Cursor::open(self.container, target.partition, target.snapshot.as_ref(), ask, access, after, self.now)?;
            self.cursors[i] = Some(cursor);
        }
        Ok(())
    }

    fn choose(&self, asks: &[Ask<'a>]) -> orrery_model::Result<Vec<Access>> {
        let each = self.targets.iter().zip(asks);
        each.map(|(target, ask)| Access::choose(ask, target.partition, target.snapshot.as_ref())).collect()
    }

    /// What each asked partition did, with its range id and how it was searched.
    pub fn work(&self) -> Vec<(u32, QueryWork, String)> {
        let each = self.targets.iter().zip(&self.cursors);
        each.filter_map(|(t, c)| c.as_ref().map(|c| (t.partition.id, c.work, c.explanation().to_owned()))).collect()
    }

    fn next_found(&mut self) -> orrery_model::Result<Option<(u32, Found)>> {
        if self.merged { self.next_merged() } else { self.next_in_turn() }
    }

    fn next_in_turn(&mut self) -> orrery_model::Result<Option<(u32, Found)>> {
        while let Some(target) = self.targets.get(self.current) {
            let id = target.partition.id;
            if self.cursors[self.current].is_none() {
                let ask = (self.ask)(target);
                let access = Access::choose(&ask, target.partition, target.snapshot.as_ref())?;
                let after = self.last.as_ref().filter(|(range, _)| *range == id).map(|(_, spot)| spot);
                let cursor = Cursor::open(
                    self.container,
                    target.partition,
                    target.snapshot.as_ref(),
                    ask,
                    access,
                    after,
                    self.now,
                )?;
                self.cursors[self.current] = Some(cursor);
            }
            if let Some(found) = self.cursors[self.current].as_mut().map(Cursor::next).transpose()?.flatten() {
                return Ok(Some((id, found)));
            }
            self.current += 1;
        }
        Ok(None)
    }

    fn next_merged(&mut self) -> orrery_model::Result<Option<(u32, Found)>> {
        loop {
            let mut best: Option<(usize, Spot)> = None;
            for (i, cursor) in self.cursors.iter_mut().enumerate() {
                let Some(spot) = cursor.as_mut().map(Cursor::peek).transpose()?.flatten() else { continue };
                if best.as_ref().is_none_or(|(_, least)| compare_spots(spot, least, self.descending).is_lt()) {
                    best = Some((i, spot.clone()));
                }
            }
            let Some((i, spot)) = best else { return Ok(None) };
            let cursor = self.cursors[i].as_mut().expect("just peeked");
            // Loading may find the item expired or outside the range, and then the cursor stands somewhere else.
            match cursor.take_at(&spot)? {
                Some(found) => return Ok(Some((self.targets[i].partition.id, found))),
                None => continue,
            }
        }
    }
}

impl Source for Candidates<'_> {
    fn next(&mut self) -> Result<Option<Candidate>, QueryError> {
        let found = self.next_found().map_err(|e| QueryError::Source(Box::new(e)))?;
        Ok(found.map(|(range, found)| {
            self.last = Some((range, found.spot));
            Candidate { text: found.text, satisfied: found.satisfied }
        }))
    }

    fn is_ordered(&self) -> bool {
        self.cursors.iter().flatten().all(Cursor::is_ordered)
    }

    fn position(&self) -> Vec<u8> {
        match &self.last {
            None => vec![0],
            Some((range, spot)) => {
                let mut out = vec![1];
                out.extend_from_slice(&range.to_be_bytes());
                out.extend_from_slice(&spot.number.to_be_bytes());
                if let Some(value) = &spot.value {
                    out.push(1);
                    out.extend_from_slice(value);
                }
                out
            }
        }
    }
}

/// The position that [`Source::position`] wrote.
fn read_position(bytes: &[u8]) -> orrery_model::Result<Option<(u32, Spot)>> {
    let read = || -> Option<Option<(u32, Spot)>> {
        match bytes.split_first()? {
            (0, []) => Some(None),
            (1, rest) => {
                let range = u32::from_be_bytes(rest.get(..4)?.try_into().ok()?);
                let number = u64::from_be_bytes(rest.get(4..12)?.try_into().ok()?);
                let value = match rest.get(12..)? {
                    [] => None,
                    [1, value @ ..] => Some(value.to_vec()),
                    _ => return None,
                };
                Some(Some((range, Spot { value, number })))
            }
            _ => None,
        }
    };
    read().ok_or_else(foreign_position)
}

fn foreign_position() -> Error {
    Error::bad("The continuation token is invalid: it does not belong to this container or query.")
}
