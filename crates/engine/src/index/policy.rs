//! Indexing policies: which paths of an item are indexed.
//!
//! A policy lists included and excluded paths, `/a/b/?` for a scalar and `/a/*` for everything below. The longer path
//! wins, and `/?` wins over `/*`. The lists become a tree that is walked together with the item, so that deciding costs
//! nothing where no listed path reaches. `id` and `_ts` are always indexed in consistent mode, `_etag` is not unless it
//! is included.

use super::cells::Frame;
use super::paths::Step;
use orrery_model::{Error, Json, Object, Result, limits, object};
use orrery_sql::Extent;
use std::collections::HashMap;

/// A checked indexing policy.
#[derive(Clone, Debug)]
pub struct Policy {
    consistent: bool,
    tree: Node,
    composites: Vec<Composite>,
    explicit_scalars: Vec<Vec<String>>,
    spatial: Vec<SearchIndex>,
    epk_prefixes: Vec<SpatialIndex>,
    vectors: Vec<SearchIndex>,
    full_text: Vec<SearchIndex>,
    body: Object,
}

/// An entry of `spatialIndexes`, `vectorIndexes` or `fullTextIndexes`, as it is kept. Of the last two there are no index
/// entries.
#[derive(Clone, Debug)]
pub struct SearchIndex {
    /// As it is written.
    pub path: String,
    /// Its names; empty where a spatial path covers several values.
    pub names: Vec<String>,
    /// The whole entry.
    pub body: Object,
}

/// A spatial index over the figures at one path.
#[derive(Clone, Debug)]
pub struct SpatialIndex {
    /// Names.
    pub path: Vec<Step>,
    /// What the grid divides.
    pub frame: Frame,
    /// What names it in the dictionary of paths.
    pub text: String,
}

impl SpatialIndex {
    /// The index that an entry of the policy makes; none for a path of many values, which is read without one.
    fn of(entry: &SearchIndex) -> Option<Self> {
        let (path, _) = parse_path(&entry.path)?;
        if path.is_empty() || path.contains(&Step::Element) {
            return None;
        }
        let side = |name: &str| entry.body.get("boundingBox")?.get(name)?.as_f64();
        let frame = match (side("xmin"), side("ymin"), side("xmax"), side("ymax")) {
            (Some(west), Some(south), Some(east), Some(north)) => Frame {
                extent: Extent {
                    west,
                    south,
                    east,
                    north,
                },
                is_planar: true,
            },
            _ => Frame::EARTH,
        };
        // Cells of another grid are other values.
        let grid = if frame.is_planar {
            format!(" in {:?}", frame.extent)
        } else {
            String::new()
        };
        Some(SpatialIndex {
            text: format!("spatial {}{grid}", path_text(&path)),
            path,
            frame,
        })
    }
}

/// A composite index: several values of an item as one.
///
/// It serves an order and the opposite one, so the first path counts as ascending and the others as they stand to it:
/// there is one form of each index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composite {
    /// Each path, and whether its values ascend where those of the first do.
    pub paths: Vec<(Vec<Step>, bool)>,
    /// What names it in the dictionary of paths, and in metrics: `/a ASC, /b DESC`.
    pub text: String,
}

/// Where in the policy's tree a walk stands.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    node: Option<&'a Node>,
    inherited: bool,
}

#[derive(Clone, Debug, Default)]
struct Node {
    names: HashMap<String, Node>,
    element: Option<Box<Node>>,
    /// What `/?` says here.
    scalar: Option<bool>,
    /// What `/*` says from here down.
    below: Option<bool>,
}

impl Policy {
    /// The policy of a container that names none.
    pub fn default_policy() -> Self {
        Self::from_json(None).expect("the default policy is valid")
    }

    /// Reads the `indexingPolicy` member of a container body; absent parts get the service's defaults.
    ///
    /// # Errors
    /// 400 for paths that are not well formed, contradictions, and kinds of index that are not offered.
    pub fn from_json(body: Option<&Json>) -> Result<Self> {
        let empty = Object::new();
        let body = match body {
            None | Some(Json::Null) => &empty,
            Some(Json::Object(o)) => o,
            Some(_) => return Err(bad("it is not an object")),
        };
        let mode = body
            .get("indexingMode")
            .and_then(Json::as_str)
            .unwrap_or("consistent")
            .to_lowercase();
        let consistent = match mode.as_str() {
            "consistent" => true,
            "none" => false,
            "lazy" => return Err(Error::unsupported("The indexing mode 'lazy'")),
            other => return Err(bad(&format!("the indexing mode '{other}' is unknown"))),
        };
        let automatic = body
            .get("automatic")
            .and_then(Json::as_bool)
            .unwrap_or(consistent);
        if consistent && !automatic {
            return Err(Error::unsupported(
                "An indexing policy with 'automatic' false",
            ));
        }
        if !consistent {
            for list in SEARCH_INDEXES {
                if body
                    .get(list)
                    .and_then(Json::as_array)
                    .is_some_and(|a| !a.is_empty())
                {
                    return Err(bad(&format!("'{list}' needs the indexing mode consistent")));
                }
            }
            let body = object! { "indexingMode" => "none", "automatic" => false,
            "includedPaths" => Vec::new(), "excludedPaths" => Vec::new() };
            return Ok(Policy {
                consistent,
                tree: Node::default(),
                composites: Vec::new(),
                explicit_scalars: Vec::new(),
                spatial: Vec::new(),
                epk_prefixes: Vec::new(),
                vectors: Vec::new(),
                full_text: Vec::new(),
                body,
            });
        }
        Self::consistent(body)
    }

    fn consistent(body: &Object) -> Result<Self> {
        let mut included = path_texts(body, "includedPaths")?;
        let mut excluded = path_texts(body, "excludedPaths")?;
        let lists_root = |list: &[String]| list.iter().any(|p| p == "/*");
        if included.is_empty() && !lists_root(&excluded) {
            included.push("/*".into());
        }
        if lists_root(&included) == lists_root(&excluded) {
            return Err(bad("the path '/*' must be either included or excluded"));
        }
        let etag_named =
            |list: &[String]| list.iter().any(|p| p == "/\"_etag\"/?" || p == "/_etag/?");
        if !etag_named(&included) && !etag_named(&excluded) {
            excluded.push("/\"_etag\"/?".into());
        }
        let mut tree = Node::default();
        for (list, decision) in [(&included, true), (&excluded, false)] {
            for text in list {
                tree.add(text, decision)?;
            }
        }
        for always in ["/id/?", "/_ts/?"] {
            let (steps, _) = parse_path(always).expect("well formed");
            tree.node(&steps).scalar = Some(true);
        }
        let listed = |list: &[String]| -> Json {
            list.iter()
                .map(|p| Json::Object(object! { "path" => p.as_str() }))
                .collect::<Vec<_>>()
                .into()
        };
        let mut shown = object! { "indexingMode" => "consistent", "automatic" => true,
        "includedPaths" => listed(&included), "excludedPaths" => listed(&excluded) };
        let composites = match body.get("compositeIndexes") {
            None | Some(Json::Null) => Vec::new(),
            Some(list) => {
                shown.push_new("compositeIndexes", list.clone());
                read_composites(list)?
            }
        };
        let mut search = |list: &str| -> Result<Vec<SearchIndex>> {
            let Some(given) = body.get(list).filter(|given| !matches!(given, Json::Null)) else {
                return Ok(Vec::new());
            };
            shown.push_new(list, given.clone());
            read_search_indexes(list, given)
        };
        let [spatial, vectors, full_text] = SEARCH_INDEXES;
        let (spatial, vectors, full_text) =
            (search(spatial)?, search(vectors)?, search(full_text)?);
        let epk_prefixes = spatial.iter().filter_map(SpatialIndex::of).collect();
        let explicit_scalars = included.iter().filter_map(|p| plain_names(p)).collect();
        Ok(Policy {
            consistent: true,
            tree,
            composites,
            explicit_scalars,
            epk_prefixes,
            spatial,
            vectors,
            full_text,
            body: shown,
        })
    }

    /// The policy as a container read shows it.
    pub fn to_json(&self) -> Json {
        Json::Object(self.body.clone())
    }

    /// Whether anything is indexed at all.
    pub fn is_consistent(&self) -> bool {
        self.consistent
    }

    /// Where a walk over an item begins.
    pub fn start(&self) -> At<'_> {
        At {
            node: Some(&self.tree),
            inherited: self.consistent && self.tree.below.unwrap_or(false),
        }
    }

    /// Whether a scalar at this path is indexed.
    pub fn covers(&self, path: &[Step]) -> bool {
        self.consistent
            && path
                .iter()
                .fold(self.start(), |at, step| at.step(step))
                .scalar()
    }

    /// The composite index that serves ORDER BY over these paths; `true` means ascending.
    pub fn orders_by(&self, keys: &[(Vec<Step>, bool)]) -> Option<&Composite> {
        let wanted = Composite::new(keys.to_vec());
        self.composites
            .iter()
            .find(|composite| composite.paths == wanted.paths)
    }

    /// The same policy but for its composite indexes.
    pub fn without_composites(&self) -> Policy {
        let mut other = self.clone();
        other.composites.clear();
        other.body.remove("compositeIndexes");
        other
    }

    /// The composite indexes, each once.
    pub fn composites(&self) -> &[Composite] {
        &self.composites
    }

    /// The spatial indexes.
    pub fn spatial_indexes(&self) -> &[SearchIndex] {
        &self.spatial
    }

    /// The spatial indexes over the figures at one path, with their grids.
    pub fn spatial_places(&self) -> &[SpatialIndex] {
        &self.epk_prefixes
    }

    /// The spatial index of a path.
    pub fn spatial_index(&self, path: &[Step]) -> Option<&SpatialIndex> {
        self.epk_prefixes.iter().find(|index| index.path == path)
    }

    /// The vector indexes.
    pub fn vector_indexes(&self) -> &[SearchIndex] {
        &self.vectors
    }

    /// The full-text indexes.
    pub fn full_text_indexes(&self) -> &[SearchIndex] {
        &self.full_text
    }

    /// Included paths that name one scalar, as names.
    pub fn explicit_scalars(&self) -> &[Vec<String>] {
        &self.explicit_scalars
    }
}

impl<'a> At<'a> {
    /// One step further down.
    pub fn step(self, step: &Step) -> At<'a> {
        match step {
            Step::Name(name) => self.name(name),
            Step::Element => self.element(),
        }
    }

    /// Into the member `name`.
    pub fn name(self, name: &str) -> At<'a> {
        self.enter(self.node.and_then(|n| n.names.get(name)))
    }

    /// Into the elements of an array.
    pub fn element(self) -> At<'a> {
        self.enter(self.node.and_then(|n| n.element.as_deref()))
    }

    fn enter(self, node: Option<&'a Node>) -> At<'a> {
        At {
            node,
            inherited: node.and_then(|n| n.below).unwrap_or(self.inherited),
        }
    }

    /// Whether a scalar here is indexed.
    pub fn scalar(self) -> bool {
        self.node.and_then(|n| n.scalar).unwrap_or(self.inherited)
    }

    /// Whether an array or object here is indexed as such.
    pub fn container(self) -> bool {
        self.inherited
    }

    /// Whether nothing at or below this point can be indexed.
    pub fn is_dead_end(self) -> bool {
        self.node.is_none() && !self.inherited
    }
}

impl Node {
    fn add(&mut self, text: &str, decision: bool) -> Result<()> {
        let (steps, everything) = parse_path(text)
            .ok_or_else(|| bad(&format!("the path '{text}' is not well formed")))?;
        let node = self.node(&steps);
        let epk_prefix = if everything {
            &mut node.below
        } else {
            &mut node.scalar
        };
        if epk_prefix
            .replace(decision)
            .is_some_and(|before| before != decision)
        {
            return Err(bad(&format!(
                "the path '{text}' is both included and excluded"
            )));
        }
        Ok(())
    }

    fn node(&mut self, steps: &[Step]) -> &mut Node {
        steps.iter().fold(self, |node, step| match step {
            Step::Name(name) => node.names.entry(name.clone()).or_default(),
            Step::Element => node.element.get_or_insert_default(),
        })
    }
}

fn bad(what: &str) -> Error {
    Error::bad(format!("The indexing policy is invalid: {what}."))
}

fn path_texts(body: &Object, name: &str) -> Result<Vec<String>> {
    let list = match body.get(name) {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::Array(list)) => list,
        Some(_) => return Err(bad(&format!("'{name}' is not an array"))),
    };
    if list.len() > limits::INDEXING_PATHS {
        return Err(bad(&format!(
            "'{name}' has more than {} paths",
            limits::INDEXING_PATHS
        )));
    }
    // `/` is how old clients write `/*`.
    let text = |entry: &Json| {
        let path = entry.get("path").and_then(Json::as_str)?;
        Some(if path == "/" {
            "/*".to_owned()
        } else {
            path.to_owned()
        })
    };
    list.iter()
        .map(|e| text(e).ok_or_else(|| bad(&format!("an entry of '{name}' has no 'path'"))))
        .collect()
}

fn read_composites(list: &Json) -> Result<Vec<Composite>> {
    let list = list
        .as_array()
        .ok_or_else(|| bad("'compositeIndexes' is not an array"))?;
    let mut composites: Vec<Composite> = Vec::new();
    for composite in list {
        let parts = composite
            .as_array()
            .ok_or_else(|| bad("a composite index is not an array"))?;
        if !(2..=limits::COMPOSITE_PATHS).contains(&parts.len()) {
            return Err(bad(&format!(
                "a composite index has 2 to {} paths",
                limits::COMPOSITE_PATHS
            )));
        }
        let composite = Composite::new(parts.iter().map(composite_part).collect::<Result<_>>()?);
        if composite
            .paths
            .iter()
            .enumerate()
            .any(|(i, (path, _))| composite.paths[..i].iter().any(|(p, _)| p == path))
        {
            return Err(bad("a composite index names a path twice"));
        }
        if !composites.contains(&composite) {
            composites.push(composite);
        }
    }
    if composites
        .iter()
        .map(|composite| composite.paths.len())
        .sum::<usize>()
        > limits::COMPOSITE_PATHS_TOTAL
    {
        return Err(bad(&format!(
            "its composite indexes have more than {} paths",
            limits::COMPOSITE_PATHS_TOTAL
        )));
    }
    Ok(composites)
}

impl Composite {
    fn new(mut paths: Vec<(Vec<Step>, bool)>) -> Self {
        let turn = paths.first().is_some_and(|(_, ascending)| !ascending);
        paths
            .iter_mut()
            .for_each(|(_, ascending)| *ascending ^= turn);
        let part = |(path, ascending): &(Vec<Step>, bool)| {
            format!(
                "{} {}",
                path_text(path),
                if *ascending { "ASC" } else { "DESC" }
            )
        };
        let text = paths.iter().map(part).collect::<Vec<_>>().join(", ");
        Composite { paths, text }
    }
}

/// A path as policies write it, without what stands for its end.
pub fn path_text(steps: &[Step]) -> String {
    let step = |step: &Step| match step {
        Step::Element => "/[]".to_owned(),
        Step::Name(name)
            if !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') =>
        {
            format!("/{name}")
        }
        Step::Name(name) => format!("/{}", Json::from(name.as_str())),
    };
    steps.iter().map(step).collect()
}

fn composite_part(part: &Json) -> Result<(Vec<Step>, bool)> {
    let text = part
        .get("path")
        .and_then(Json::as_str)
        .ok_or_else(|| bad("a composite index has no 'path'"))?;
    let wrong = || bad(&format!("the composite path '{text}' is not well formed"));
    let (steps, everything) =
        parse_path(&format!("{}/?", text.trim_end_matches("/?"))).ok_or_else(wrong)?;
    if everything || steps.is_empty() || steps.contains(&Step::Element) {
        return Err(wrong());
    }
    match part
        .get("order")
        .and_then(Json::as_str)
        .unwrap_or("ascending")
    {
        "ascending" => Ok((steps, true)),
        "descending" => Ok((steps, false)),
        other => Err(bad(&format!(
            "the order '{other}' is neither ascending nor descending"
        ))),
    }
}

/// The lists of indexes for searching.
const SEARCH_INDEXES: [&str; 3] = ["spatialIndexes", "vectorIndexes", "fullTextIndexes"];

fn read_search_indexes(list: &str, given: &Json) -> Result<Vec<SearchIndex>> {
    let entries = given
        .as_array()
        .ok_or_else(|| bad(&format!("'{list}' is not an array")))?;
    let mut indexes: Vec<SearchIndex> = Vec::with_capacity(entries.len());
    for entry in entries {
        let path = entry.get("path").and_then(Json::as_str);
        let path = path.ok_or_else(|| bad(&format!("an entry of '{list}' has no 'path'")))?;
        // Spatial paths cover what is below them; the others name one value.
        let names = if list == "spatialIndexes" {
            parse_path(path).map(|_| Vec::new())
        } else {
            names_of(path)
        };
        let names = names
            .ok_or_else(|| bad(&format!("the path '{path}' of '{list}' is not well formed")))?;
        if indexes.iter().any(|index| index.path == path) {
            return Err(bad(&format!("the path '{path}' stands twice in '{list}'")));
        }
        let body = entry.as_object().cloned().unwrap_or_default();
        indexes.push(SearchIndex {
            path: path.to_owned(),
            names,
            body,
        });
    }
    Ok(indexes)
}

/// The names of a path without an ending, `/a/b`, which names one value.
pub fn names_of(path: &str) -> Option<Vec<String>> {
    plain_names(&format!("{path}/?"))
}

/// The names of a path like `/a/b/?`; `None` for paths of several values.
fn plain_names(text: &str) -> Option<Vec<String>> {
    let (steps, everything) = parse_path(text)?;
    let name = |step| match step {
        Step::Name(name) => Some(name),
        Step::Element => None,
    };
    if everything {
        None
    } else {
        steps.into_iter().map(name).collect()
    }
}

/// A policy path: its steps, and whether it means everything below (`/*`) or a scalar (`/?`).
fn parse_path(text: &str) -> Option<(Vec<Step>, bool)> {
    let mut rest = text.strip_prefix('/')?;
    let mut steps = Vec::new();
    loop {
        match rest {
            "*" => return Some((steps, true)),
            "?" => return (!steps.is_empty()).then_some((steps, false)),
            _ => {}
        }
        let (step, more) = if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"')?;
            (
                Step::Name(quoted[..end].to_owned()),
                quoted[end + 1..].strip_prefix('/')?,
            )
        } else {
            let (name, more) = rest.split_once('/')?;
            match name {
                "" | "*" | "?" => return None,
                "[]" => (Step::Element, more),
                name => (Step::Name(name.to_owned()), more),
            }
        };
        steps.push(step);
        rest = more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;

    fn policy(text: &str) -> Result<Policy> {
        Policy::from_json(Some(&parse(text.as_bytes()).expect("JSON")))
    }

    fn covers(policy: &Policy, path: &str) -> bool {
        let steps: Vec<Step> = path
            .split('/')
            .map(|s| {
                if s == "[]" {
                    Step::Element
                } else {
                    Step::Name(s.to_owned())
                }
            })
            .collect();
        policy.covers(&steps)
    }

    #[test]
    fn by_default_everything_but_the_etag_is_indexed() {
        let policy = Policy::default_policy();
        assert!(covers(&policy, "a/b/[]") && covers(&policy, "id") && !covers(&policy, "_etag"));
        let shown = r#"{"indexingMode":"consistent","automatic":true,"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/\"_etag\"/?"}]}"#;
        assert_eq!(policy.to_json().to_text(), shown);
    }

    #[test]
    fn the_more_precise_path_wins() {
        let policy = policy(
            r#"{"includedPaths":[{"path":"/*"},{"path":"/a/b/?"},{"path":"/t/[]/name/?"}],
                "excludedPaths":[{"path":"/a/*"},{"path":"/c/?"},{"path":"/t/*"}]}"#,
        )
        .expect("policy");
        for (path, covered) in [
            ("x", true),
            ("a", false),
            ("a/b", true),
            ("a/b/c", false),
            ("a/x", false),
            ("c", false),
            ("c/d", true),
            ("t/[]/name", true),
            ("t/[]/other", false),
            ("id", true),
        ] {
            assert_eq!(covers(&policy, path), covered, "{path}");
        }
    }

    #[test]
    fn id_and_ts_are_indexed_even_when_all_is_excluded() {
        let policy = policy(r#"{"excludedPaths":[{"path":"/*"}]}"#).expect("policy");
        assert!(covers(&policy, "id") && covers(&policy, "_ts") && !covers(&policy, "a"));
        let none = Policy::from_json(Some(&parse(br#"{"indexingMode":"none"}"#).expect("JSON")))
            .expect("policy");
        assert!(!covers(&none, "id") && !none.is_consistent());
    }

    #[test]
    fn the_root_may_be_written_as_old_clients_do() {
        let old = policy(
            r#"{"includedPaths":[{"path":"/","indexes":[{"kind":"Range","dataType":"Number"}]}]}"#,
        );
        assert_eq!(
            old.expect("policy").to_json(),
            Policy::default_policy().to_json()
        );
    }

    #[test]
    fn wrong_policies_are_refused() {
        for text in [
            r#"{"includedPaths":[{"path":"/a/?"}]}"#,
            r#"{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/*"}]}"#,
            r#"{"includedPaths":[{"path":"a"}]}"#,
            r#"{"includedPaths":[{"path":"/*"},{"path":"/a"}]}"#,
            r#"{"includedPaths":[{}]}"#,
            r#"{"indexingMode":"sometimes"}"#,
            r#"{"spatialIndexes":[{"path":"at"}]}"#,
            r#"{"vectorIndexes":[{"path":"/v/*"}]}"#,
            r#"{"fullTextIndexes":[{"path":"/t"},{"path":"/t"}]}"#,
            r#"{"indexingMode":"none","fullTextIndexes":[{"path":"/t"}]}"#,
            r#"[]"#,
        ] {
            assert!(policy(text).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn a_composite_index_serves_its_order_and_the_opposite() {
        let policy =
            policy(r#"{"compositeIndexes":[[{"path":"/a","order":"ascending"},{"path":"/b","order":"descending"}]]}"#)
                .expect("policy");
        let keys = |a: bool, b: bool| {
            vec![
                (vec![Step::Name("a".into())], a),
                (vec![Step::Name("b".into())], b),
            ]
        };
        assert!(
            policy.orders_by(&keys(true, false)).is_some()
                && policy.orders_by(&keys(false, true)).is_some()
        );
        assert!(policy.orders_by(&keys(true, true)).is_none());
    }
}
