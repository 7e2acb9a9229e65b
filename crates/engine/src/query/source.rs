//! The candidates of a query over one or many partitions, as the query's source.
//!
//! Without ORDER BY the partitions are asked one after the other, each in natural order, and only as far as needed. With
//! an ORDER BY that their indexes serve they are merged; ties are broken by number. A position says where the last
//! candidate stood: which range, and where in it. If that range is gone since, those that took its place are read as it
//! was: merged by number.

use super::access::{Access, Ask, Settled};
use super::cursor::{Cursor, Found};
use super::position::{QueryPosition, RangePart};
use super::walk::IndexPosition;
use crate::catalog::Container;
use crate::errors::storage_failure;
use crate::index::policy::Composite;
use crate::partition::Partition;
use crate::partition::keys;
use crate::partition::visibility::Visibility;
use orrery_model::partition_key::EpkRange;
use orrery_model::work::QueryWork;
use orrery_model::{Error, Result};
use orrery_sql::{Candidate, QueryError, Source};
use orrery_storage::Snapshot;
use std::ops::Range;
use std::time::{Duration, Instant};

/// A partition to be asked.
pub struct Target<'a> {
    /// The partition.
    pub partition: &'a Partition,
    /// What positions in it name.
    pub stretch: RangePart,
    /// What is read of it.
    pub snapshot: Box<dyn Snapshot>,
    /// The stretch of the hash space wanted, if not all of it.
    pub within: Option<EpkRange>,
    /// What of it can be seen.
    pub visible: Visibility,
}

/// What one asked partition did.
pub struct Asked {
    /// Its range id.
    pub range: u32,
    /// Counted work.
    pub work: QueryWork,
    /// How it was searched, in words.
    pub explanation: String,
    /// The composite index that was used, if one was.
    pub composite: Option<Composite>,
}

/// Candidates of several partitions.
pub struct Candidates<'a> {
    container: &'a Container,
    targets: &'a [Target<'a>],
    ask: Ask<'a>,
    cursors: Vec<Option<Cursor<'a>>>,
    merged: bool,
    descending: bool,
    /// How many of the first targets are read as one.
    as_one: usize,
    current: usize,
    last: Option<QueryPosition>,
    short_positions: bool,
    lookup_time: Duration,
}

impl<'a> Candidates<'a> {
    /// Candidates from `after` on. With ORDER BY all partitions are opened; if one of them cannot walk in order, none
    /// does. `ask` is the same for all targets but for the stretch.
    ///
    /// # Errors
    /// What the store reports; 400 for a position that makes no sense.
    pub fn open(
        container: &'a Container,
        targets: &'a [Target<'a>],
        as_one: usize,
        ask: Ask<'a>,
        after: Option<&[u8]>,
        short_positions: bool,
    ) -> Result<Self> {
        let mut this = Candidates {
            container,
            targets,
            ask,
            cursors: targets.iter().map(|_| None).collect(),
            merged: false,
            descending: false,
            as_one,
            current: 0,
            last: after.map(QueryPosition::read).transpose()?.flatten(),
            short_positions,
            lookup_time: Duration::ZERO,
        };
        if !this.ask.query.order().is_empty() {
            this.looking_up(|this| this.open_merged(after.is_some_and(<[u8]>::is_empty)))?;
        }
        Ok(this)
    }

    /// Does what plans a search and looks into the index for it, and adds the time that it takes.
    fn looking_up<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let begun = Instant::now();
        let done = work(self);
        self.lookup_time += begun.elapsed();
        done
    }

    /// How long planning the search and looking into the index for it took so far, in all partitions. What is read of
    /// the index later, between one item and the next, is not in it.
    pub fn lookup_time(&self) -> Duration {
        self.lookup_time
    }

    fn open_merged(&mut self, sorted_before: bool) -> Result<()> {
        self.merged = true;
        self.descending = self
            .ask
            .query
            .order()
            .first()
            .is_some_and(|key| key.descending);
        let settled = match &self.last {
            Some(last) => Some(Settled::Along(
                last.along.ok_or_else(QueryPosition::foreign)?,
            )),
            // What collects leaves no place behind, in whichever order it came; it is chosen again as before.
            None => (sorted_before && !self.ask.query.is_blocking()).then_some(Settled::Sort),
        };
        let mut chosen = self.choose(settled)?;
        let along = settled
            .is_none()
            .then(|| chosen.iter().find_map(Access::along))
            .flatten();
        if let Some(along) = along {
            // All partitions walk along one index, or none does.
            let agrees = |access: &Access| {
                access.is_ordered() && access.along().is_none_or(|name| name == along)
            };
            if !chosen.iter().all(agrees) {
                chosen = self.choose(Some(Settled::Along(along)))?;
            }
            if !chosen.iter().all(agrees) {
                chosen = self.choose(Some(Settled::Sort))?;
            }
        }
        let in_order = chosen.iter().all(Access::is_ordered);
        if let (Some(Settled::Along(_)), false) = (settled, in_order) {
            return Err(QueryPosition::foreign());
        }
        let after = match &self.last {
            Some(last) if in_order => Some(self.spot_of(last, &chosen)?),
            // What is sorted is counted, not placed: it begins anew on every page.
            _ => None,
        };
        for (i, access) in chosen.into_iter().enumerate() {
            self.cursors[i] = Some(self.cursor(i, access, after.as_ref())?);
        }
        Ok(())
    }

    /// The spot of a position: in a run, and where the position is a short one, the item itself says it.
    fn spot_of(&self, last: &QueryPosition, chosen: &[Access]) -> Result<IndexPosition> {
        let at = self.target_of(last)?;
        let written = IndexPosition {
            value: last.value.clone(),
            finer: None,
            number: last.number,
        };
        let Some(walk) = chosen[at]
            .walk()
            .or_else(|| chosen.iter().find_map(Access::walk))
        else {
            return Ok(written);
        };
        if !last.is_short && !walk.in_run(&written) {
            return Ok(written);
        }
        let snapshot = self.targets[at].snapshot.as_ref();
        let epk_prefix = snapshot
            .get(&keys::natural(last.number))
            .map_err(storage_failure)?;
        let epk_prefix = epk_prefix.and_then(|epk_prefix| epk_prefix[..].try_into().ok());
        let found = epk_prefix
            .map(|epk_prefix| walk.spot_of(snapshot, last.number, epk_prefix))
            .transpose()?
            .flatten();
        match found {
            Some(spot)
                if last.is_short
                    && last.digest == QueryPosition::digest_of(spot.value.as_deref()) =>
            {
                Ok(spot)
            }
            Some(spot) if !last.is_short && spot.value == written.value => Ok(spot),
            // The item changed since. In a run its number is still a place, if not the same.
            _ if !last.is_short => Ok(written),
            _ => Err(Error::bad(
                "The continuation token is no longer valid: it was shortened to fit its limit, and the item that it \
                 names has changed. Start the query again.",
            )),
        }
    }

    /// The target that has the item of a position, or would have it.
    fn target_of(&self, last: &QueryPosition) -> Result<usize> {
        if let Some(at) = self.targets.iter().position(|t| t.stretch == last.stretch) {
            return Ok(at);
        }
        self.container
            .epk_range_of(last.stretch.range)
            .ok_or_else(QueryPosition::foreign)?;
        for (at, target) in self.targets.iter().enumerate() {
            if target
                .snapshot
                .get(&keys::natural(last.number))
                .map_err(storage_failure)?
                .is_some()
            {
                return Ok(at);
            }
        }
        if self.targets.is_empty() {
            Err(QueryPosition::foreign())
        } else {
            Ok(0)
        }
    }

    fn ask(&self, target: usize, order: Option<Settled>) -> Ask<'a> {
        let Target {
            within, visible, ..
        } = &self.targets[target];
        Ask {
            within: within.as_ref(),
            visible,
            order,
            ..self.ask
        }
    }

    fn choose(&self, order: Option<Settled>) -> Result<Vec<Access>> {
        let each = self.targets.iter().enumerate();
        each.map(|(i, t)| Access::choose(&self.ask(i, order), t.partition, t.snapshot.as_ref()))
            .collect()
    }

    fn cursor(
        &self,
        target: usize,
        access: Access,
        after: Option<&IndexPosition>,
    ) -> Result<Cursor<'a>> {
        let snapshot = self.targets[target].snapshot.as_ref();
        Cursor::open(
            self.container,
            snapshot,
            self.ask(target, None),
            access,
            after,
        )
    }

    /// What each asked partition did.
    pub fn work(&self) -> Vec<Asked> {
        let each = self.targets.iter().zip(&self.cursors);
        let asked = |(t, c): (&Target<'_>, &Option<Cursor<'_>>)| {
            let cursor = c.as_ref()?;
            let Access {
                explanation,
                composite,
                ..
            } = cursor.access();
            let (explanation, composite) = (explanation.clone(), composite.clone());
            Some(Asked {
                range: t.partition.id,
                work: cursor.work,
                explanation,
                composite,
            })
        };
        each.filter_map(asked).collect()
    }

    fn next_found(&mut self) -> Result<Option<(usize, Found)>> {
        if self.merged {
            self.next_merged(0..self.targets.len())
        } else {
            self.next_in_turn()
        }
    }

    fn next_in_turn(&mut self) -> Result<Option<(usize, Found)>> {
        while self.current < self.targets.len() {
            let turn = self.current..self.as_one.max(self.current + 1);
            for target in turn
                .clone()
                .filter(|target| self.cursors[*target].is_none())
                .collect::<Vec<_>>()
            {
                self.cursors[target] = Some(self.looking_up(|this| this.cursor_in_turn(target))?);
            }
            let found = match turn.len() {
                1 => {
                    let found = self.cursors[self.current]
                        .as_mut()
                        .map(Cursor::next)
                        .transpose()?
                        .flatten();
                    found.map(|found| (self.current, found))
                }
                _ => self.next_merged(turn.clone())?,
            };
            if found.is_some() {
                return Ok(found);
            }
            self.current = turn.end;
        }
        Ok(None)
    }

    /// The cursor of a target in natural order, behind the position if that is in it.
    fn cursor_in_turn(&self, target: usize) -> Result<Cursor<'a>> {
        let last = self
            .last
            .as_ref()
            .filter(|last| last.stretch == self.targets[target].stretch && !last.is_start);
        let settled = last.and_then(|last| last.along).map(Settled::Along);
        let among_items = last.is_some_and(|last| last.along.is_none());
        let mut ask = self.ask(target, settled);
        ask.may_scan_values &= !among_items;
        let Target {
            partition,
            snapshot,
            ..
        } = &self.targets[target];
        let access = Access::choose(&ask, partition, snapshot.as_ref())?;
        if settled.is_some() && access.along() != last.and_then(|last| last.along) {
            return Err(QueryPosition::foreign());
        }
        let spot = last.map(|l| IndexPosition {
            value: l.value.clone(),
            finer: None,
            number: l.number,
        });
        self.cursor(target, access, spot.as_ref())
    }

    fn next_merged(&mut self, among: Range<usize>) -> Result<Option<(usize, Found)>> {
        loop {
            let mut best: Option<(usize, IndexPosition)> = None;
            for i in among.clone() {
                let cursor = &mut self.cursors[i];
                let Some(spot) = cursor.as_mut().map(Cursor::peek).transpose()?.flatten() else {
                    continue;
                };
                if best
                    .as_ref()
                    .is_none_or(|(_, least)| spot.compare(least, self.descending).is_lt())
                {
                    best = Some((i, spot.clone()));
                }
            }
            let Some((i, spot)) = best else {
                return Ok(None);
            };
            let cursor = self.cursors[i].as_mut().expect("just peeked");
            // Loading may find the item gone or outside the range, and then the cursor stands somewhere else.
            match cursor.take_at(&spot)? {
                Some(found) => return Ok(Some((i, found))),
                None => continue,
            }
        }
    }
}

impl Source for Candidates<'_> {
    fn next(&mut self) -> std::result::Result<Option<Candidate>, QueryError> {
        let found = self
            .next_found()
            .map_err(|e| QueryError::Source(Box::new(e)));
        Ok(found?.map(|(target, found)| {
            let along = self.cursors[target].as_ref().and_then(Cursor::along);
            let number = Some(found.spot.number);
            self.last = Some(QueryPosition::of(
                self.targets[target].stretch.clone(),
                along,
                found.spot,
            ));
            Candidate {
                text: found.text,
                condition_holds: found.satisfied,
                item_number: number,
            }
        }))
    }

    fn is_ordered(&self) -> bool {
        self.cursors.iter().flatten().all(Cursor::is_ordered)
    }

    fn position(&self) -> Vec<u8> {
        match &self.last {
            None => QueryPosition::BEGINNING.to_vec(),
            Some(last) => last.write(self.short_positions),
        }
    }

    fn is_page_budget_spent(&self) -> bool {
        let profile = self.ask.profile;
        self.cursors
            .iter()
            .flatten()
            .any(|cursor| profile.is_a_full_page(&cursor.work))
    }
}
