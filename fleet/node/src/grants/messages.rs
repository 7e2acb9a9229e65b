//! The messages between the leaseholder and the owners of partitions.
//!
//! A message that is sent a second time changes nothing within the term of a leaseholder: the polls
//! of a process have ascending numbers, grants have ids that are used once in a term, and recalls
//! name them. The ids begin anew with each leaseholder, so a poll names the term of its grants. An
//! old poll of a process that has ended can make a later leaseholder give partitions to that
//! process; they come back when their time is over.
//!
//! Counts are told in reports with numbers. A report that may not have arrived is sent again with
//! its number, so no count is added twice.
//!
//! Left out: the way of a message to the other node (`wire.rs`).

use super::routed_store::KnownHeadAt;
use crate::Recall;
use orrery_engine::{GrantedPartition, MeterReport, Standing};
use orrery_storage::{Head, KnownHead, PartitionId, Token};
use serde::{Deserialize, Serialize};

/// A partition with the id of a grant.
pub(super) type Granted = (u64, u64);

/// The question of a node for the partitions that it owns.
#[derive(Debug, Deserialize, Serialize)]
pub struct Poll {
    /// The random number of the process.
    pub(super) process: u64,
    /// Higher than in each poll of the process before.
    pub(super) number: u64,
    /// Name and address of the node.
    pub(super) name: String,
    pub(super) address: String,
    /// The term of the leaseholder that has made the grants in `owned` and `given_back`; 0 if the
    /// process has heard of no leaseholder; `None` in the polls of versions that told no term.
    #[serde(default)]
    pub(super) term: Option<u64>,
    /// The grants that the process has taken over.
    pub(super) owned: Vec<Granted>,
    /// The grants that it has given back, with the standings of their budgets.
    pub(super) given_back: Vec<GivenBack>,
    /// The heads of partitions of the first list, by partition, as far as they have changed since a
    /// poll that was answered.
    #[serde(default)]
    pub(super) heads: Vec<(u64, HeadText)>,
    /// The counts of the requests at the partitions of both lists.
    pub(super) report: Report,
    /// The last report of a leaseholder that has arrived: the term of the leaseholder, and the
    /// number.
    pub(super) seen: (u64, u64),
    /// Resource ids of containers with work for the leaseholder.
    pub(super) work: Vec<String>,
    /// The node takes no further partitions for now: it ends, or cannot reach a cluster.
    pub(super) takes_none: bool,
}

/// The answer to a [`Poll`].
#[derive(Debug, Deserialize, Serialize)]
pub struct PollAnswer {
    /// The term of the leaseholder.
    pub(super) term: u64,
    pub(super) round: u64,
    /// Milliseconds for which the partitions are owned, from before the poll was sent.
    pub(super) valid_ms: u64,
    /// The version of the catalog.
    pub(super) catalog: u64,
    /// The confirmed time of the leaseholder, in milliseconds since 1970.
    pub(super) confirmed_ms: u64,
    /// All grants of the process.
    pub(super) grants: Vec<Granted>,
    /// The terms of those that it does not have yet.
    pub(super) terms: Vec<TermsText>,
    /// The counts of the leaseholder at the partitions of the process.
    pub(super) report: Report,
    /// The partitions of other nodes, by address.
    pub(super) owners: Vec<(String, Vec<u64>)>,
}

/// The demand of the leaseholder to give partitions back.
#[derive(Debug, Deserialize, Serialize)]
pub struct RecallText {
    /// The term of the leaseholder.
    pub(super) term: u64,
    pub(super) process: u64,
    pub(super) round: u64,
    pub(super) partitions: Vec<Granted>,
}

/// The answer to a [`RecallText`].
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Returned {
    pub(super) given_back: Vec<GivenBack>,
    pub(super) reports: Vec<Counted>,
}

/// Counts, with a number that is higher than that of each report before.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Report {
    pub(super) number: u64,
    pub(super) counts: Vec<Counted>,
}

/// A grant that has ended, and the standing of the partition's budget.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct GivenBack {
    pub(super) grant: Granted,
    pub(super) standing: Option<StandingText>,
    /// The last head that the owner knows.
    pub(super) head: Option<HeadText>,
    /// Every commit of the owner is durable, or did not take place.
    pub(super) is_settled: bool,
}

/// The terms of a grant.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct TermsText {
    pub(super) partition: u64,
    pub(super) cluster: String,
    /// The number of the partition in its cluster.
    pub(super) number: u64,
    catalog: u64,
    numbers: (u64, u64),
    standing: Option<StandingText>,
    /// The last head that the leaseholder knows.
    pub(super) head: Option<HeadText>,
}

/// A [`KnownHeadAt`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct HeadText {
    pub(super) cluster: String,
    pub(super) number: u64,
    incarnation: u64,
    epoch: u64,
    lsn: u64,
    token: Token,
    opener: Option<Token>,
}

/// A [`Standing`].
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct StandingText {
    began: u64,
    spent: i64,
    bank: i64,
    from_bank: i64,
    recent: Vec<(u64, i64)>,
}

/// Partition, charge, requests, throttled requests, and those that would have been throttled.
pub(super) type Counted = (u64, u64, u64, u64, u64);

impl From<&Standing> for StandingText {
    fn from(standing: &Standing) -> StandingText {
        StandingText {
            began: standing.began,
            spent: standing.spent,
            bank: standing.bank,
            from_bank: standing.from_bank,
            recent: standing.recent.clone(),
        }
    }
}

impl From<&StandingText> for Standing {
    fn from(text: &StandingText) -> Standing {
        Standing {
            began: text.began,
            spent: text.spent,
            bank: text.bank,
            from_bank: text.from_bank,
            recent: text.recent.clone(),
        }
    }
}

impl From<&KnownHeadAt> for HeadText {
    fn from(at: &KnownHeadAt) -> HeadText {
        let known = &at.known;
        HeadText {
            cluster: at.cluster.clone(),
            number: at.number.0,
            incarnation: known.incarnation,
            epoch: known.epoch,
            lsn: known.head.lsn,
            token: known.head.token,
            opener: known.opener,
        }
    }
}

impl HeadText {
    pub(super) fn known(&self) -> KnownHead {
        KnownHead {
            incarnation: self.incarnation,
            epoch: self.epoch,
            head: Head {
                lsn: self.lsn,
                token: self.token,
            },
            opener: self.opener,
        }
    }
}

impl RecallText {
    /// Returns the message with a recall of the leaseholder of a term.
    pub fn of(term: u64, recall: &Recall) -> RecallText {
        RecallText {
            term,
            process: recall.owner.process,
            round: recall.round,
            partitions: recall.partitions.clone(),
        }
    }
}

impl TermsText {
    /// Returns the text of a partition, which lives in a cluster under a number.
    pub(super) fn of(
        granted: &GrantedPartition,
        cluster: &str,
        number: PartitionId,
        known: Option<KnownHead>,
    ) -> TermsText {
        let head = known.map(|known| KnownHeadAt {
            cluster: cluster.to_owned(),
            number,
            known,
        });
        TermsText {
            partition: granted.partition.0,
            cluster: cluster.to_owned(),
            number: number.0,
            catalog: granted.catalog_version,
            numbers: (granted.numbers.start, granted.numbers.end),
            standing: granted.standing.as_ref().map(StandingText::from),
            head: head.as_ref().map(HeadText::from),
        }
    }

    /// Returns the state with which a process goes on.
    pub(super) fn granted(&self) -> GrantedPartition {
        GrantedPartition {
            partition: PartitionId(self.partition),
            catalog_version: self.catalog,
            numbers: self.numbers.0..self.numbers.1,
            standing: self.standing.as_ref().map(Standing::from),
        }
    }
}

impl Report {
    /// Takes the next counts, unless the last ones may still have to be sent again.
    pub(super) fn next(
        &mut self,
        take: impl FnOnce() -> Vec<(PartitionId, MeterReport)>,
    ) -> Report {
        if self.counts.is_empty() {
            self.number += 1;
            self.counts = counted(&take());
        }
        self.clone()
    }

    /// Notes that the other side has the report with a number.
    pub(super) fn has_arrived(&mut self, number: u64) {
        if number >= self.number {
            self.counts.clear();
        }
    }
}

/// Returns reports as a message has them.
pub(super) fn counted(reports: &[(PartitionId, MeterReport)]) -> Vec<Counted> {
    let text = |(partition, report): &(PartitionId, MeterReport)| {
        let MeterReport {
            charged,
            requests,
            throttled,
            would_throttle,
        } = *report;
        (partition.0, charged, requests, throttled, would_throttle)
    };
    reports.iter().map(text).collect()
}

/// Returns the reports of a message.
pub(super) fn reports(counted: &[Counted]) -> Vec<(PartitionId, MeterReport)> {
    let report = |&(partition, charged, requests, throttled, would_throttle): &Counted| {
        let report = MeterReport {
            charged,
            requests,
            throttled,
            would_throttle,
        };
        (PartitionId(partition), report)
    };
    counted.iter().map(report).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_as_they_were_written() {
        let granted = GrantedPartition {
            partition: PartitionId(7),
            catalog_version: 12,
            numbers: 1 << 40..(1 << 40) + 5,
            standing: Some(Standing {
                began: 1_767_225_600_000,
                spent: -3,
                bank: 4,
                from_bank: 1,
                recent: vec![(17_672_256_000, 5_000)],
            }),
        };
        let known = KnownHead {
            incarnation: 1,
            epoch: u64::MAX,
            head: Head {
                lsn: 5,
                token: [7; 16],
            },
            opener: Some([8; 16]),
        };
        let text = TermsText::of(&granted, "east", PartitionId(u64::MAX / 2), Some(known));
        let text = serde_json::to_string(&text).expect("terms are text");
        let read: TermsText = serde_json::from_str(&text).expect("the text is terms");
        assert_eq!(read.granted(), granted);
        assert_eq!(read.head.map(|head| head.known()), Some(known));
        assert_eq!((read.cluster.as_str(), read.number), ("east", u64::MAX / 2));
    }

    #[test]
    fn a_report_is_sent_again_until_it_has_arrived() {
        let counts = |charged| {
            let report = MeterReport {
                charged,
                ..MeterReport::default()
            };
            vec![(PartitionId(9), report)]
        };
        let mut report = Report::default();
        let first = report.next(|| counts(5));
        assert_eq!((first.number, &first.counts), (1, &counted(&counts(5))));
        let again = report.next(|| panic!("the first one may not have arrived"));
        assert_eq!((again.number, again.counts), (1, first.counts));
        report.has_arrived(0);
        assert_eq!(
            report.next(|| panic!("an earlier one has arrived")).number,
            1
        );
        report.has_arrived(1);
        let second = report.next(|| counts(7));
        assert_eq!((second.number, second.counts), (2, counted(&counts(7))));
    }

    #[test]
    fn reports_are_read_as_they_were_written() {
        let report = MeterReport {
            charged: 1,
            requests: 2,
            throttled: 3,
            would_throttle: 4,
        };
        let all = [(PartitionId(9), report)];
        assert_eq!(reports(&counted(&all)), all);
    }
}
