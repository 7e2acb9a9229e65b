//! The physical partitions of a model as small squares, one for each in hash order, filled if a
//! page asked it. Above [`SQUARES_MAX`] partitions of a container a square stands for several.

use crate::requests::grouped;
use crate::text;
use futures_util::future::join_all;
use orrery_blog::client::PartitionKeyRange;
use orrery_blog::{Blog, Charge, RequestRecord};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Squares of one container.
const SQUARES_MAX: usize = 80;

/// The requests to a physical partition.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AskedAt {
    pub(crate) requests: usize,
    pub(crate) charge: Charge,
    /// The row of the first request in the table of requests, from 1 on; 0 if unknown.
    pub(crate) order: usize,
}

/// The partitions that answered, by name of the container and id of the range.
pub(crate) type Asked = BTreeMap<(String, String), AskedAt>;

/// Returns the partitions that answered.
pub(crate) fn asked_by(records: &[RequestRecord]) -> Asked {
    let mut asked = Asked::new();
    for (row, members) in grouped(records).into_iter().enumerate() {
        for record in members {
            let place = (name_of(&record.container).to_owned(), record.range.clone());
            let at = asked.entry(place).or_default();
            at.requests += 1;
            at.charge.0 += record.charge.0;
            if at.order == 0 {
                at.order = row + 1;
            }
        }
    }
    asked
}

/// Returns the name of a container from its link.
pub(crate) fn name_of(link: &str) -> &str {
    link.rsplit('/').next().unwrap_or_default()
}

/// The containers of a model with their physical partitions in hash order.
#[derive(Default)]
pub(crate) struct Layout(Vec<(String, Arc<Vec<PartitionKeyRange>>)>);

/// The squares of one container.
#[derive(Clone)]
pub(crate) struct Group {
    pub(crate) container: String,
    pub(crate) squares: Vec<Square>,
    pub(crate) asked: usize,
    pub(crate) partitions: usize,
    /// Partitions that one square stands for.
    pub(crate) each: usize,
}

/// One square.
#[derive(Clone)]
pub(crate) struct Square {
    /// Name for scripts, e.g. `posts-3`.
    pub(crate) name: String,
    pub(crate) is_lit: bool,
    /// The row of the first request that asked it, from 1 on, at the first square of the container
    /// that this row asked; otherwise 0.
    pub(crate) order: usize,
}

/// A row of the table of partitions.
pub(crate) struct PartitionRow {
    pub(crate) container: String,
    pub(crate) id: String,
    pub(crate) hash_range: String,
    pub(crate) requests: usize,
    pub(crate) charge: String,
}

impl Layout {
    /// Reads the partitions of a model, mostly from memory. A container whose partitions the
    /// database does not tell is left out.
    pub(crate) async fn of(blog: &Blog) -> Self {
        let links = blog.containers();
        let ranges = join_all(links.iter().map(|link| blog.client().ranges(link))).await;
        let mut containers = Vec::new();
        for (link, ranges) in links.iter().zip(ranges) {
            if let Ok(ranges) = ranges {
                containers.push((name_of(link).to_owned(), ranges));
            }
        }
        Self(containers)
    }

    /// Returns the name of the square of each partition.
    pub(crate) fn names(&self) -> HashMap<(String, String), String> {
        let mut names = HashMap::new();
        for (container, ranges) in &self.0 {
            for (place, range) in ranges.iter().enumerate() {
                let square = place / each_of(ranges.len());
                let name = format!("{container}-{square}");
                names.insert((container.clone(), range.id.clone()), name);
            }
        }
        names
    }

    /// Returns the squares of each container.
    pub(crate) fn groups(&self, asked: &Asked) -> Vec<Group> {
        let mut groups = Vec::new();
        for (container, ranges) in &self.0 {
            let found = |range: &PartitionKeyRange| {
                asked.get(&(container.clone(), range.id.clone())).copied()
            };
            let each = each_of(ranges.len());
            let (mut squares, mut numbered) = (Vec::new(), BTreeSet::new());
            for (place, members) in ranges.chunks(each).enumerate() {
                let orders = members.iter().filter_map(found).map(|at| at.order);
                let first = orders.min();
                squares.push(Square {
                    is_lit: first.is_some(),
                    order: first
                        .filter(|row| numbered.insert(*row))
                        .unwrap_or_default(),
                    name: format!("{container}-{place}"),
                });
            }
            groups.push(Group {
                container: container.clone(),
                squares,
                asked: ranges.iter().filter_map(found).count(),
                partitions: ranges.len(),
                each,
            });
        }
        groups
    }

    /// Returns the row of each partition.
    pub(crate) fn rows(&self, asked: &Asked) -> Vec<PartitionRow> {
        let mut rows = Vec::new();
        for (container, ranges) in &self.0 {
            for range in ranges.iter() {
                let found = asked.get(&(container.clone(), range.id.clone()));
                let at = found.copied().unwrap_or_default();
                rows.push(PartitionRow {
                    container: container.clone(),
                    id: range.id.clone(),
                    hash_range: hash_range(range),
                    requests: at.requests,
                    charge: text::charge(at.charge),
                });
            }
        }
        rows
    }
}

impl Group {
    /// Returns the sentence for people who do not see the squares.
    pub(crate) fn words(&self) -> String {
        let of = text::counted(self.partitions as u64, "partition", "partitions");
        format!("{}: {} of {of} asked", self.container, self.asked)
    }
}

/// Returns the number of partitions that one square stands for.
fn each_of(partitions: usize) -> usize {
    partitions.div_ceil(SQUARES_MAX).max(1)
}

/// Returns the first digits of a range of the hash space, e.g. `1FFF–FF`.
fn hash_range(range: &PartitionKeyRange) -> String {
    let prefix = |key: &str, if_empty: &str| match key.get(..key.len().min(4)) {
        Some(prefix) if !prefix.is_empty() => prefix.to_owned(),
        _ => if_empty.to_owned(),
    };
    format!("{}–{}", prefix(&range.min, "00"), prefix(&range.max, "FF"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(partitions: usize) -> Layout {
        let mut ranges = Vec::new();
        for place in 0..partitions {
            ranges.push(PartitionKeyRange {
                id: format!("r{place}"),
                min: format!("{place:04X}"),
                max: format!("{:04X}", place + 1),
                parents: Vec::new(),
            });
        }
        Layout(vec![("posts".to_owned(), Arc::new(ranges))])
    }

    fn asked(ranges: &[&str]) -> Asked {
        let place = |range: &&str| ("posts".to_owned(), (*range).to_owned());
        let at = AskedAt {
            requests: 1,
            charge: Charge(283),
            order: 2,
        };
        ranges.iter().map(|range| (place(range), at)).collect()
    }

    #[test]
    fn a_square_is_filled_if_its_partition_was_asked_and_numbered_by_the_first_request() {
        let layout = layout(3);
        let groups = layout.groups(&asked(&["r1"]));
        let lit: Vec<bool> = groups[0]
            .squares
            .iter()
            .map(|square| square.is_lit)
            .collect();
        assert_eq!(lit, [false, true, false]);
        assert_eq!(groups[0].squares[1].order, 2);
        assert_eq!(groups[0].words(), "posts: 1 of 3 partitions asked");
        let rows = layout.rows(&asked(&["r1"]));
        assert_eq!((rows[1].requests, rows[1].charge.as_str()), (1, "2.83"));
        assert_eq!(rows[1].hash_range, "0001–0002");
    }

    #[test]
    fn many_partitions_share_squares() {
        let layout = layout(200);
        let groups = layout.groups(&asked(&["r0", "r1", "r199"]));
        assert_eq!((groups[0].squares.len(), groups[0].each), (67, 3));
        let lit = groups[0]
            .squares
            .iter()
            .filter(|square| square.is_lit)
            .count();
        assert_eq!((lit, groups[0].asked), (2, 3));
        let names = layout.names();
        assert_eq!(names[&("posts".to_owned(), "r199".to_owned())], "posts-66");
    }
}
