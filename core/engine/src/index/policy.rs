//! Indexing policies: the paths of an item that are indexed.
//!
//! A policy lists included and excluded paths, `/a/b/?` for a scalar and `/a/*` for everything
//! below. The longer path wins, and `/?` wins over `/*`. The lists become a tree. Indexing moves a
//! [`PolicyCursor`] through the tree together with the item, so paths that no list names need no
//! further look-up. `id` and `_ts` are always indexed in consistent mode; `_etag` is indexed only
//! if it is included.

use super::cells::SpatialIndex;
use super::index_kinds;
use super::paths::Step;
use super::texts::TextIndex;
use super::vectors::VectorIndex;
use crate::request::IndexingDirective;
use orrery_model::words::shortened;
use orrery_model::{Error, Json, Object, Result, limits, object};
use std::collections::HashMap;

/// The lists of spatial, vector and full-text indexes in a policy.
const SEARCH_INDEXES: [&str; 3] = [SPATIAL_INDEXES, "vectorIndexes", "fullTextIndexes"];
const SPATIAL_INDEXES: &str = "spatialIndexes";

/// The types of geometries that a spatial index has, whichever of them the policy names.
pub(crate) const GEOMETRY_TYPES: [&str; 4] = ["Point", "LineString", "Polygon", "MultiPolygon"];

/// A path of an index or of ORDER BY, and true if it ascends.
pub(crate) type OrderedPath = (Vec<Step>, bool);

/// A checked indexing policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// True in the indexing mode `consistent`, false in `none`.
    is_consistent: bool,
    /// True if items without an indexing directive are indexed.
    is_automatic: bool,
    /// True for an automatic policy whose entries lack the items with the directive Exclude, as
    /// earlier versions of the program left them out.
    leaves_out_excluded: bool,
    tree: Node,
    composites: Vec<Composite>,
    /// Included paths that name one scalar.
    explicit_scalars: Vec<Vec<String>>,
    spatial: Vec<SearchIndex>,
    /// The entries of `spatial` that have index entries.
    spatial_grids: Vec<SpatialIndex>,
    vectors: Vec<SearchIndex>,
    /// The entries of `vectors` as the partition keeps them, with the data types and dimensions of
    /// the container's vector embeddings.
    stored_vectors: Vec<VectorIndex>,
    full_text: Vec<SearchIndex>,
    /// The entries of `full_text` as the partition keeps them, with the languages of the
    /// container's full-text policy.
    stored_texts: Vec<TextIndex>,
    /// The policy as a container read shows it.
    body: Object,
}

/// An entry of `spatialIndexes`, `vectorIndexes` or `fullTextIndexes` as the policy has it.
#[derive(Clone, Debug)]
pub struct SearchIndex {
    /// The path as it is written.
    pub path: String,
    /// Names of the path; empty for spatial indexes.
    pub names: Vec<String>,
    /// The whole entry.
    pub body: Object,
}

/// A composite index over several paths of an item.
///
/// A composite index serves an order and the opposite order. The first path is stored as ascending
/// and the direction of the others is relative to the first, so each index has one form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composite {
    /// The paths with their directions relative to the first.
    pub paths: Vec<OrderedPath>,
    /// Name of the index in the dictionary of paths and in metrics: `/a ASC, /b DESC`.
    pub text: String,
}

impl Composite {
    fn new(mut paths: Vec<OrderedPath>) -> Self {
        let descends = paths.first().is_some_and(|(_, ascending)| !ascending);
        let mut texts = Vec::with_capacity(paths.len());
        for (path, ascending) in &mut paths {
            *ascending ^= descends;
            let direction = if *ascending { "ASC" } else { "DESC" };
            texts.push(format!("{} {direction}", path_text(path)));
        }
        Composite {
            paths,
            text: texts.join(", "),
        }
    }
}

/// A position in the tree of a policy.
#[derive(Clone, Copy, Debug)]
pub struct PolicyCursor<'a> {
    /// The node of the path, or `None` where the policy names nothing at or below the path.
    node: Option<&'a Node>,
    /// The decision of the nearest `/*` at or above the path; true means included.
    inherited: bool,
}

/// The decisions of a policy at one path; true means included.
#[derive(Clone, Debug, Default)]
struct Node {
    names: HashMap<String, Node>,
    element: Option<Box<Node>>,
    /// Decision of `/?` at this path.
    scalar: Option<bool>,
    /// Decision of `/*` from this path down.
    below: Option<bool>,
}

impl Policy {
    /// Returns the policy of a container that names none.
    pub fn default_policy() -> Self {
        Self::from_json(None).expect("the default policy is valid")
    }

    /// Reads the `indexingPolicy` member of a container body. Absent parts get the defaults of the
    /// service.
    ///
    /// # Errors
    /// 400 for malformed paths, contradictions, and kinds of index that are not supported.
    pub fn from_json(body: Option<&Json>) -> Result<Self> {
        let empty = Object::new();
        let body = match body {
            None | Some(Json::Null) => &empty,
            Some(Json::Object(body)) => body,
            Some(_) => return Err(bad("it is not an object")),
        };
        let mode = body.get("indexingMode").and_then(Json::as_str);
        let mode = mode.unwrap_or("consistent").to_lowercase();
        let is_consistent = match mode.as_str() {
            "consistent" => true,
            "none" => false,
            "lazy" => return Err(Error::unsupported("The indexing mode 'lazy'")),
            other => {
                let problem = format!("the indexing mode '{}' is unknown", shortened(other));
                return Err(bad(&problem).with_help("It is consistent or none."));
            }
        };
        if is_consistent {
            Self::consistent(body)
        } else {
            Self::none(body)
        }
    }

    /// Returns the policy of the indexing mode `none`.
    fn none(body: &Object) -> Result<Self> {
        for list in SEARCH_INDEXES {
            let entries = body.get(list).and_then(Json::as_array);
            if entries.is_some_and(|entries| !entries.is_empty()) {
                return Err(bad(&format!("'{list}' needs the indexing mode consistent")));
            }
        }
        let body = object! {
            "indexingMode" => "none",
            "automatic" => false,
            "includedPaths" => Vec::new(),
            "excludedPaths" => Vec::new(),
        };
        Ok(Policy {
            is_consistent: false,
            is_automatic: false,
            leaves_out_excluded: false,
            tree: Node::default(),
            composites: Vec::new(),
            explicit_scalars: Vec::new(),
            spatial: Vec::new(),
            spatial_grids: Vec::new(),
            vectors: Vec::new(),
            stored_vectors: Vec::new(),
            full_text: Vec::new(),
            stored_texts: Vec::new(),
            body,
        })
    }

    /// Reads a policy of the indexing mode `consistent`.
    fn consistent(body: &Object) -> Result<Self> {
        let (included, excluded) = completed_paths(body)?;
        let old_spatial = index_kinds::spatial_paths(body)?;

        // The tree holds all decisions. `id` and `_ts` are indexed even under an excluded path.
        let mut tree = Node::default();
        for (list, is_included) in [(&included, true), (&excluded, false)] {
            for text in list {
                tree.add(text, is_included)?;
            }
        }
        for name in ["id", "_ts"] {
            tree.node(&[Step::Name(name.into())]).scalar = Some(true);
        }

        // A container read shows the paths as they were completed, and the index lists as they were
        // given.
        let is_automatic = body.get("automatic").and_then(Json::as_bool) != Some(false);
        let mut shown = object! {
            "indexingMode" => "consistent",
            "automatic" => is_automatic,
            "includedPaths" => path_documents(&included),
            "excludedPaths" => path_documents(&excluded),
        };
        let composites = match body.get("compositeIndexes") {
            None | Some(Json::Null) => Vec::new(),
            Some(list) => {
                shown.push_new("compositeIndexes", list.clone());
                read_composites(list)?
            }
        };
        let mut search_indexes = [Vec::new(), Vec::new(), Vec::new()];
        for (list, indexes) in SEARCH_INDEXES.into_iter().zip(&mut search_indexes) {
            let given = match list {
                SPATIAL_INDEXES => index_kinds::add_spatial(body.get(list), &old_spatial),
                _ => body
                    .get(list)
                    .filter(|given| **given != Json::Null)
                    .cloned(),
            };
            let Some(given) = given else {
                continue;
            };
            *indexes = read_search_indexes(list, &given)?;
            let shown_list = match list {
                SPATIAL_INDEXES => of_all_types(given),
                _ => given,
            };
            shown.push_new(list, shown_list);
        }
        let [spatial, vectors, full_text] = search_indexes;
        Ok(Policy {
            is_consistent: true,
            is_automatic,
            leaves_out_excluded: false,
            tree,
            composites,
            explicit_scalars: included
                .iter()
                .filter_map(|path| scalar_names(path))
                .collect(),
            spatial_grids: spatial.iter().filter_map(SpatialIndex::of).collect(),
            spatial,
            vectors,
            stored_vectors: Vec::new(),
            full_text,
            stored_texts: Vec::new(),
            body: shown,
        })
    }

    /// Returns the policy as a container read shows it.
    pub fn to_json(&self) -> Json {
        Json::Object(self.body.clone())
    }

    /// Returns true if the policy indexes items, false in the indexing mode `none`.
    pub fn is_consistent(&self) -> bool {
        self.is_consistent
    }

    /// Returns true if items are indexed whose writes do not name an indexing directive.
    pub fn is_automatic(&self) -> bool {
        self.is_automatic
    }

    /// Returns true if the policy indexes an item whose last write had this directive. An automatic
    /// policy indexes all items.
    pub fn indexes(&self, directive: IndexingDirective) -> bool {
        self.is_consistent
            && match directive {
                IndexingDirective::Default => self.is_automatic,
                IndexingDirective::Include => true,
                IndexingDirective::Exclude => self.is_automatic && !self.leaves_out_excluded,
            }
    }

    /// Returns true if the policy has no entries for items with the directive Exclude although the
    /// policy is automatic.
    pub(crate) fn leaves_out_excluded(&self) -> bool {
        self.leaves_out_excluded
    }

    /// Returns the policy as earlier versions of the program followed it: items with the directive
    /// Exclude have no entries.
    pub(crate) fn leaving_out_excluded(&self) -> Policy {
        let mut other = self.clone();
        other.leaves_out_excluded = self.is_automatic;
        other
    }

    /// Returns the cursor at the root of an item.
    pub fn root(&self) -> PolicyCursor<'_> {
        PolicyCursor {
            node: Some(&self.tree),
            inherited: self.is_consistent && self.tree.below.unwrap_or(false),
        }
    }

    /// Returns true if a scalar at this path is indexed.
    pub fn covers(&self, path: &[Step]) -> bool {
        let mut cursor = self.root();
        for step in path {
            cursor = cursor.step(step);
        }
        self.is_consistent && cursor.indexes_scalar()
    }

    /// Returns the composite index that serves ORDER BY over these paths.
    pub fn orders_by(&self, keys: &[OrderedPath]) -> Option<&Composite> {
        let wanted = Composite::new(keys.to_vec());
        self.composites
            .iter()
            .find(|composite| composite.paths == wanted.paths)
    }

    /// Returns the same policy without its composite indexes.
    pub fn without_composites(&self) -> Policy {
        let mut other = self.clone();
        other.composites.clear();
        other.body.remove("compositeIndexes");
        other
    }

    /// Returns the distinct composite indexes.
    pub fn composites(&self) -> &[Composite] {
        &self.composites
    }

    /// Returns the entries of `spatialIndexes`.
    pub fn spatial_indexes(&self) -> &[SearchIndex] {
        &self.spatial
    }

    /// Returns the spatial indexes that have index entries.
    pub fn spatial_grid_indexes(&self) -> &[SpatialIndex] {
        &self.spatial_grids
    }

    /// Returns the spatial index of a path, if it has index entries.
    pub fn spatial_index(&self, path: &[Step]) -> Option<&SpatialIndex> {
        self.spatial_grids.iter().find(|index| index.path == path)
    }

    /// Returns the vector indexes.
    pub fn vector_indexes(&self) -> &[SearchIndex] {
        &self.vectors
    }

    /// Returns the vector indexes that have index entries.
    pub(crate) fn stored_vectors(&self) -> &[VectorIndex] {
        &self.stored_vectors
    }

    /// Returns the full-text indexes that have index entries.
    pub(crate) fn stored_texts(&self) -> &[TextIndex] {
        &self.stored_texts
    }

    /// Returns the same policy with entries for these vector and full-text indexes.
    pub(crate) fn with_search_entries(
        mut self,
        stored_vectors: Vec<VectorIndex>,
        stored_texts: Vec<TextIndex>,
    ) -> Policy {
        self.stored_vectors = stored_vectors;
        self.stored_texts = stored_texts;
        self
    }

    /// Returns the same policy without its vector and full-text indexes.
    pub(crate) fn without_search(&self) -> Policy {
        let mut other = self.clone().with_search_entries(Vec::new(), Vec::new());
        other.vectors.clear();
        other.full_text.clear();
        other.body.remove("vectorIndexes");
        other.body.remove("fullTextIndexes");
        other
    }

    /// Returns true if the index entries of every item are the same under both policies.
    pub(crate) fn has_same_entries(&self, other: &Policy) -> bool {
        self.to_json() == other.to_json()
            && self.stored_vectors == other.stored_vectors
            && self.stored_texts == other.stored_texts
    }

    /// Returns the full-text indexes.
    pub fn full_text_indexes(&self) -> &[SearchIndex] {
        &self.full_text
    }

    /// Returns the names of the included paths that name one scalar.
    pub fn explicit_scalars(&self) -> &[Vec<String>] {
        &self.explicit_scalars
    }
}

impl<'a> PolicyCursor<'a> {
    /// Moves one step down.
    pub fn step(self, step: &Step) -> PolicyCursor<'a> {
        match step {
            Step::Name(name) => self.name(name),
            Step::Element => self.element(),
        }
    }

    /// Moves to the member `name` of an object.
    pub fn name(self, name: &str) -> PolicyCursor<'a> {
        self.enter(self.node.and_then(|node| node.names.get(name)))
    }

    /// Moves to the elements of an array.
    pub fn element(self) -> PolicyCursor<'a> {
        self.enter(self.node.and_then(|node| node.element.as_deref()))
    }

    fn enter(self, node: Option<&'a Node>) -> PolicyCursor<'a> {
        let decision = node.and_then(|node| node.below);
        PolicyCursor {
            node,
            inherited: decision.unwrap_or(self.inherited),
        }
    }

    /// Returns true if a scalar at this path is indexed.
    pub fn indexes_scalar(self) -> bool {
        let decision = self.node.and_then(|node| node.scalar);
        decision.unwrap_or(self.inherited)
    }

    /// Returns true if an array or object at this path is indexed.
    pub fn indexes_structure(self) -> bool {
        self.inherited
    }

    /// Returns true if nothing at or below this path is indexed.
    pub fn indexes_nothing(self) -> bool {
        self.node.is_none() && !self.inherited
    }
}

impl Node {
    /// Adds the decision on a path of a policy.
    fn add(&mut self, text: &str, is_included: bool) -> Result<()> {
        let (steps, is_subtree) =
            parse_path(text).ok_or_else(|| bad_path("the path", text, "/?"))?;
        let node = self.node(&steps);
        let decision = if is_subtree {
            &mut node.below
        } else {
            &mut node.scalar
        };
        let before = decision.replace(is_included);
        if before.is_some_and(|before| before != is_included) {
            return Err(bad(&format!(
                "the path '{text}' is both included and excluded"
            )));
        }
        Ok(())
    }

    /// Returns the node of a path. Creates missing nodes.
    fn node(&mut self, steps: &[Step]) -> &mut Node {
        let mut node = self;
        for step in steps {
            node = match step {
                Step::Name(name) => node.names.entry(name.clone()).or_default(),
                Step::Element => node.element.get_or_insert_default(),
            };
        }
        node
    }
}

/// Returns the error for a path that is not one, with the path that was probably meant. `ending` is
/// what a path of the list ends with.
fn bad_path(what: &str, text: &str, ending: &str) -> Error {
    let error = bad(&format!("{what} '{}' is not well formed", shortened(text)));
    // The usual slips: no slash, dots instead of slashes, the alias of a query, no ending.
    let plain = text
        .trim_matches('/')
        .trim_end_matches("/?")
        .trim_end_matches("/*");
    let plain = plain.strip_prefix("c.").unwrap_or(plain);
    let mut guess = String::new();
    for name in plain.split(['.', '/']) {
        guess.push('/');
        match name {
            "[]" => guess.push_str(name),
            name if needs_no_quotes(name) => guess.push_str(name),
            name => guess.push_str(&Json::from(name.trim_matches('"')).to_text()),
        }
    }
    guess.push_str(ending);
    let is_valid = match ending {
        "" => names_of(&guess).is_some(),
        _ => parse_path(&guess).is_some(),
    };
    match is_valid {
        true => error.with_help(format!("Write '{}'.", shortened(&guess))),
        false => error.with_help("Write a path such as '/name/?' for a value or '/address/*'."),
    }
}

pub(super) fn bad(problem: &str) -> Error {
    Error::bad(format!("The indexing policy is invalid: {problem}."))
}

/// Returns true if a list names the path of `_etag`.
fn names_etag(list: &[String]) -> bool {
    list.iter()
        .any(|path| path == "/\"_etag\"/?" || path == "/_etag/?")
}

/// Returns a list of paths as a container read shows it.
fn path_documents(list: &[String]) -> Json {
    let mut documents = Vec::with_capacity(list.len());
    for path in list {
        documents.push(Json::Object(object! { "path" => path.as_str() }));
    }
    documents.into()
}

/// Returns the included and the excluded paths with those that a policy need not state: the root is
/// included unless it is excluded, and `_etag` is excluded unless it is included.
fn completed_paths(body: &Object) -> Result<(Vec<String>, Vec<String>)> {
    let mut included = path_texts(body, "includedPaths")?;
    let mut excluded = path_texts(body, "excludedPaths")?;
    let lists_root = |list: &[String]| list.iter().any(|path| path == "/*");
    if included.is_empty() && !lists_root(&excluded) {
        included.push("/*".into());
    }
    if lists_root(&included) == lists_root(&excluded) {
        return Err(
            bad("the path '/*' must be either included or excluded").with_help(
                "Add {\"path\": \"/*\"} to excludedPaths to index the included paths only, or to \
             includedPaths to index all but the excluded ones.",
            ),
        );
    }
    if !names_etag(&included) && !names_etag(&excluded) {
        excluded.push("/\"_etag\"/?".into());
    }
    Ok((included, excluded))
}

/// Reads a list of included or excluded paths.
fn path_texts(body: &Object, name: &str) -> Result<Vec<String>> {
    let list = match body.get(name) {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::Array(list)) => list,
        Some(_) => return Err(bad(&format!("'{name}' is not an array"))),
    };
    // The paths with which every policy is completed do not count, so that a client may send back
    // what it read.
    let is_completion = |entry: &Json| {
        let path = entry.get("path").and_then(Json::as_str);
        matches!(path, Some("/" | "/*" | "/\"_etag\"/?"))
    };
    let count = list.iter().filter(|entry| !is_completion(entry)).count();
    if count > limits::INDEXING_PATHS {
        let most = limits::INDEXING_PATHS;
        return Err(bad(&format!("'{name}' has more than {most} paths")));
    }
    let mut texts = Vec::with_capacity(list.len());
    for entry in list {
        match entry.get("path").and_then(Json::as_str) {
            None => return Err(bad(&format!("an entry of '{name}' has no 'path'"))),
            // Old clients write `/` for `/*`.
            Some("/") => texts.push("/*".to_owned()),
            Some(path) => texts.push(path.to_owned()),
        }
    }
    Ok(texts)
}

/// Reads the list of composite indexes.
fn read_composites(list: &Json) -> Result<Vec<Composite>> {
    let list = list
        .as_array()
        .ok_or_else(|| bad("'compositeIndexes' is not an array"))?;
    let mut composites: Vec<Composite> = Vec::new();
    for entry in list {
        let parts = entry
            .as_array()
            .ok_or_else(|| bad("a composite index is not an array"))?;
        if !(2..=limits::COMPOSITE_PATHS).contains(&parts.len()) {
            let most = limits::COMPOSITE_PATHS;
            return Err(bad(&format!("a composite index has 2 to {most} paths")));
        }
        let mut paths: Vec<OrderedPath> = Vec::with_capacity(parts.len());
        for part in parts {
            paths.push(composite_path(part)?);
        }
        for (at, (path, _)) in paths.iter().enumerate() {
            if paths[..at].iter().any(|(earlier, _)| earlier == path) {
                return Err(bad("a composite index names a path twice"));
            }
        }
        // An index and its opposite are the same index.
        let composite = Composite::new(paths);
        if !composites.contains(&composite) {
            composites.push(composite);
        }
    }
    let paths: usize = composites.iter().map(|index| index.paths.len()).sum();
    if paths > limits::COMPOSITE_PATHS_TOTAL {
        let most = limits::COMPOSITE_PATHS_TOTAL;
        return Err(bad(&format!(
            "its composite indexes have more than {most} paths"
        )));
    }
    Ok(composites)
}

/// Reads a path of a composite index and its order.
fn composite_path(part: &Json) -> Result<OrderedPath> {
    let text = part
        .get("path")
        .and_then(Json::as_str)
        .ok_or_else(|| bad("a composite index has no 'path'"))?;
    let malformed = || bad_path("the composite path", text, "");
    let scalar_path = format!("{}/?", text.trim_end_matches("/?"));
    let (steps, is_subtree) = parse_path(&scalar_path).ok_or_else(malformed)?;
    if is_subtree || steps.is_empty() || steps.contains(&Step::Element) {
        return Err(malformed());
    }
    let order = part.get("order").and_then(Json::as_str);
    match order.unwrap_or("ascending") {
        "ascending" => Ok((steps, true)),
        "descending" => Ok((steps, false)),
        other => Err(bad(&format!(
            "the order '{}' is neither ascending nor descending",
            shortened(other)
        ))),
    }
}

/// Reads a list of spatial, vector or full-text indexes.
fn read_search_indexes(list: &str, given: &Json) -> Result<Vec<SearchIndex>> {
    let entries = given
        .as_array()
        .ok_or_else(|| bad(&format!("'{list}' is not an array")))?;
    let mut indexes: Vec<SearchIndex> = Vec::with_capacity(entries.len());
    for entry in entries {
        let path = entry.get("path").and_then(Json::as_str);
        let path = path.ok_or_else(|| bad(&format!("an entry of '{list}' has no 'path'")))?;
        // A spatial path covers all values below it; a path of the other lists names one value.
        let names = if list == SPATIAL_INDEXES {
            parse_path(path).map(|_| Vec::new())
        } else {
            names_of(path)
        };
        let names = names.ok_or_else(|| {
            let ending = if list == SPATIAL_INDEXES { "/*" } else { "" };
            bad_path(&format!("the path in '{list}'"), path, ending)
        })?;
        if indexes.iter().any(|index| index.path == path) {
            return Err(bad(&format!("the path '{path}' stands twice in '{list}'")));
        }
        indexes.push(SearchIndex {
            path: path.to_owned(),
            names,
            body: entry.as_object().cloned().unwrap_or_default(),
        });
    }
    Ok(indexes)
}

/// Returns a list of spatial indexes as a container read shows it: each has all types.
fn of_all_types(mut list: Json) -> Json {
    let Json::Array(entries) = &mut list else {
        return list;
    };
    for entry in entries {
        if let Json::Object(index) = entry {
            let mut types = Vec::new();
            for name in GEOMETRY_TYPES {
                types.push(Json::from(name));
            }
            index.set("types", types);
        }
    }
    list
}

/// Returns a path as policies write it, without `/?` or `/*` at its end.
pub(crate) fn path_text(steps: &[Step]) -> String {
    path_text_with_quotes(steps, needs_no_quotes)
}

/// Returns a path as [`path_text`] does, with quotes around the names that need them.
pub(crate) fn path_text_with_quotes(steps: &[Step], needs_none: fn(&str) -> bool) -> String {
    let mut text = String::new();
    for step in steps {
        text.push('/');
        match step {
            Step::Element => text.push_str("[]"),
            Step::Name(name) if needs_none(name) => text.push_str(name),
            Step::Name(name) => text.push_str(&Json::from(name.as_str()).to_text()),
        }
    }
    text
}

fn needs_no_quotes(name: &str) -> bool {
    let mut bytes = name.bytes();
    !name.is_empty() && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns the names of a path that names one value and is written without an ending, as `/a/b`.
pub(crate) fn names_of(path: &str) -> Option<Vec<String>> {
    scalar_names(&format!("{path}/?"))
}

/// Returns the names of a path like `/a/b/?`, or `None` for a path of several values.
fn scalar_names(text: &str) -> Option<Vec<String>> {
    let (steps, is_subtree) = parse_path(text)?;
    if is_subtree {
        return None;
    }
    let mut names = Vec::with_capacity(steps.len());
    for step in steps {
        match step {
            Step::Name(name) => names.push(name),
            Step::Element => return None,
        }
    }
    Some(names)
}

/// Parses a path of a policy. Returns its steps, and true for a subtree (`/*`), false for a scalar
/// (`/?`).
pub(super) fn parse_path(text: &str) -> Option<(Vec<Step>, bool)> {
    let mut rest = text.strip_prefix('/')?;
    let mut steps = Vec::new();
    loop {
        match rest {
            "*" => return Some((steps, true)),
            "?" => return (!steps.is_empty()).then_some((steps, false)),
            _ => {}
        }
        let (step, remaining) = if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"')?;
            let name = quoted[..end].to_owned();
            (Step::Name(name), quoted[end + 1..].strip_prefix('/')?)
        } else {
            let (name, remaining) = rest.split_once('/')?;
            match name {
                "" | "*" | "?" => return None,
                "[]" => (Step::Element, remaining),
                name => (Step::Name(name.to_owned()), remaining),
            }
        };
        steps.push(step);
        rest = remaining;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;

    fn policy(text: &str) -> Result<Policy> {
        Policy::from_json(Some(&parse(text.as_bytes()).expect("JSON")))
    }

    #[test]
    fn a_path_that_is_not_one_is_answered_with_the_path_that_was_meant() {
        for (path, ending, meant) in [
            ("/name", "/?", "'/name/?'"),
            ("name/?", "/?", "'/name/?'"),
            ("c.address.city", "/?", "'/address/city/?'"),
            ("/tags/[]", "/?", "'/tags/[]/?'"),
            ("/first name", "/?", "'/\"first name\"/?'"),
            ("name", "", "'/name'"),
        ] {
            let error = bad_path("the path", path, ending);
            assert!(error.message().contains(meant), "{path}: {error}");
        }
    }

    fn covers(policy: &Policy, path: &str) -> bool {
        let steps: Vec<Step> = path
            .split('/')
            .map(|name| {
                if name == "[]" {
                    Step::Element
                } else {
                    Step::Name(name.to_owned())
                }
            })
            .collect();
        policy.covers(&steps)
    }

    #[test]
    fn by_default_everything_but_the_etag_is_indexed() {
        let policy = Policy::default_policy();
        assert!(covers(&policy, "a/b/[]") && covers(&policy, "id") && !covers(&policy, "_etag"));
        let shown = concat!(
            r#"{"indexingMode":"consistent","automatic":true,"includedPaths":[{"path":"/*"}],"#,
            r#""excludedPaths":[{"path":"/\"_etag\"/?"}]}"#,
        );
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
    fn invalid_policies_are_refused() {
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
        let policy = policy(
            r#"{"compositeIndexes":[[{"path":"/a","order":"ascending"},
                    {"path":"/b","order":"descending"}]]}"#,
        )
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
