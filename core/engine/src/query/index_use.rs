//! Index metrics of the second version, `x-ms-cosmos-populateindexmetrics-V2`: the indexes that a
//! query uses, and those that would serve it, by the service's rules.
//!
//! ```text
//! WHERE c.a = 1 AND c.b > 2      uses /b/? and /a/?, and would use (/a ASC, /b ASC)
//! SELECT SUM(c.n)                uses /n/?
//! ORDER BY RANK FullTextScore(c.t, 'x')   uses /t of the type FullText
//! ```
//!
//! The service does not document its entries for vector and full-text indexes. Here they follow the
//! entries of single paths, with the path as the policy has it and the type of the index.
//!
//! Promises: the report depends on the query and the policy alone, so all pages and all partitions
//! would have the same one. Leaves out the measured work, which is in the query metrics, and the
//! first version, whose rules differ (`metrics.rs`).

use super::condition::{conjuncts, is_answerable, steps};
use super::metrics::{HeaderRoom, SearchUse, add_path};
use crate::index::paths::Step;
use crate::index::policy::{OrderedPath, Policy, path_text_with_quotes};
use orrery_model::{Json, Object, object};
use orrery_sql::{Condition, OrderKey, Path, Query, Test};

/// Returns the report.
///
/// `key_paths`: the paths of the partition key, if the request names the key.
pub(crate) fn index_use(query: &Query, policy: &Policy, key_paths: &[Path]) -> String {
    let mut room = HeaderRoom::new(encoded_size);
    let serving = wanted_composites(query);
    let has_composite = serving
        .iter()
        .any(|paths| policy.orders_by(paths).is_some());

    let mut used: Vec<Json> = Vec::new();
    let mut potential: Vec<Json> = Vec::new();
    for path in single_paths(query, key_paths, !serving.is_empty()) {
        let steps = steps(&path);
        let list = if policy.covers(&steps) {
            &mut used
        } else {
            &mut potential
        };
        let spec = format!("{}/?", spec_text(&steps));
        room.add(list, Json::Object(object! { "IndexSpec" => spec }));
    }
    for search in query.searches() {
        let SearchUse {
            path,
            kind,
            has_index,
        } = SearchUse::of(&search, policy);
        let list = if has_index { &mut used } else { &mut potential };
        let entry = object! { "IndexSpec" => path, "IndexType" => kind };
        room.add(list, Json::Object(entry));
    }
    let mut used_composites: Vec<Json> = Vec::new();
    let mut potential_composites: Vec<Json> = Vec::new();
    for paths in &serving {
        if let Some(composite) = policy.orders_by(paths) {
            room.add(&mut used_composites, composite_json(&composite.paths));
        } else if !has_composite {
            room.add(&mut potential_composites, composite_json(paths));
        }
    }
    let document = object! {
        "UtilizedIndexes" => group(used, used_composites),
        "PotentialIndexes" => group(potential, potential_composites),
    };
    Json::Object(document).to_text()
}

/// Returns the size of a text in percent-encoding.
fn encoded_size(text: &str) -> usize {
    let size_of = |byte: u8| if byte.is_ascii_alphanumeric() { 1 } else { 3 };
    text.bytes().map(size_of).sum()
}

/// Returns the indexes of single paths and the composite indexes as one member of the report.
fn group(singles: Vec<Json>, composites: Vec<Json>) -> Object {
    object! { "SingleIndexes" => singles, "CompositeIndexes" => composites }
}

/// Returns the paths whose index the query uses or would use, each once. `id` comes last.
fn single_paths(query: &Query, key_paths: &[Path], wants_composite: bool) -> Vec<Path> {
    let mut paths: Vec<Path> = key_paths.to_vec();
    add_tested(query.condition(), &mut paths);
    let order = match query.order() {
        [key] => key.path.as_ref(),
        _ => None,
    };
    // The scan of the ORDER BY path serves the filter on the path as well, so the index is not
    // listed beside those of other filters, unless a composite index would serve both.
    if let Some(order) = order {
        let filters_others = paths.iter().any(|path| path != order);
        if !paths.contains(order) {
            paths.push(order.clone());
        } else if filters_others && !wants_composite {
            paths.retain(|path| path != order);
        }
    }
    for condition in query.computed_conditions() {
        add_tested(&condition, &mut paths);
    }

    let mut distinct: Vec<Path> = Vec::new();
    for path in paths {
        if !distinct.contains(&path) {
            distinct.push(path);
        }
    }
    distinct.sort_by_key(is_id);
    distinct
}

fn is_id(path: &Path) -> bool {
    matches!(path.0.as_slice(), [orrery_sql::Step::Name(name)] if name == "id")
}

/// Adds the paths that a condition tests and an index of values can answer.
fn add_tested(condition: &Condition, paths: &mut Vec<Path>) {
    match condition {
        Condition::And(parts) | Condition::Or(parts) => {
            for part in parts {
                add_tested(part, paths);
            }
        }
        Condition::Term { path, test, .. } if is_answerable(test) => paths.push(path.clone()),
        Condition::Term { .. } | Condition::All | Condition::Never => {}
    }
}

/// Returns the composite indexes that would serve the query, whether the policy has them or not:
/// the equalities, then ORDER BY; or the equalities and one of the ranges, an index for each range;
/// or the equalities, if GROUP BY has them all.
fn wanted_composites(query: &Query) -> Vec<Vec<OrderedPath>> {
    let mut equal: Vec<OrderedPath> = Vec::new();
    let mut ranges: Vec<&Path> = Vec::new();
    for condition in conjuncts(query.condition()) {
        match condition {
            Condition::Term {
                path,
                test: Test::Equals(_),
                ..
            } => add_path(&mut equal, path, true),
            Condition::Term {
                path,
                test: Test::Range { .. } | Test::Prefix(_),
                ..
            } => ranges.push(path),
            _ => {}
        }
    }

    let ordered = ordered_paths(&equal, query.order());
    if ordered.len() > equal.len() {
        return Vec::from_iter((ordered.len() > 1).then_some(ordered));
    }
    let mut wanted: Vec<Vec<OrderedPath>> = Vec::new();
    if equal.is_empty() {
        return wanted;
    }
    for range in ranges {
        let mut paths = equal.clone();
        add_path(&mut paths, range, true);
        if paths.len() > equal.len() && !wanted.contains(&paths) {
            wanted.push(paths);
        }
    }
    if wanted.is_empty() && groups_by_all(query, &equal) {
        wanted.push(equal);
    }
    wanted
}

/// Returns the paths of the equalities, then those of ORDER BY that no equality fixes.
fn ordered_paths(equal: &[OrderedPath], order: &[OrderKey]) -> Vec<OrderedPath> {
    let mut paths = equal.to_vec();
    for key in order {
        if let Some(path) = &key.path {
            add_path(&mut paths, path, !key.descending);
        }
    }
    paths
}

/// Returns true if GROUP BY has two or more paths and equalities fix them all.
fn groups_by_all(query: &Query, equal: &[OrderedPath]) -> bool {
    let groups = query.group_paths();
    let mut fixed = groups.iter().map(steps);
    groups.len() > 1 && fixed.all(|group| equal.iter().any(|(path, _)| *path == group))
}

fn composite_json(paths: &[OrderedPath]) -> Json {
    let mut specs: Vec<Json> = Vec::with_capacity(paths.len());
    for (path, ascending) in paths {
        let order = if *ascending { "ASC" } else { "DESC" };
        specs.push(Json::from(format!("{} {order}", spec_text(path))));
    }
    Json::Object(object! { "IndexSpecs" => specs, "IndexImpactScore" => "High" })
}

/// Returns a path as this report writes it. Unlike a policy, the report has letters and digits of
/// all scripts without quotes.
fn spec_text(steps: &[Step]) -> String {
    path_text_with_quotes(steps, needs_no_quotes)
}

fn needs_no_quotes(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}
