//! Search settings of a container: `geospatialConfig`, `vectorEmbeddingPolicy`, `fullTextPolicy`,
//! and the indexes of the indexing policy that depend on them.
//!
//! The settings control queries: spatial functions compute on the Earth or in a plane, each vector
//! path has a distance function, each text path has a language.

use crate::index::policy::{GEOMETRY_TYPES, Policy, SearchIndex, names_of};
use crate::index::texts::TextIndex;
use crate::index::vectors::VectorIndex;
use crate::partition::row::is_system;
use crate::request::properties::member;
use orrery_model::json::deep_equal;
use orrery_model::words::shortened;
use orrery_model::{Error, Json, Object, Result, object};
use orrery_sql::{
    DEFAULT_LANGUAGE, DataType, DistanceFunction, Path, VectorPath, full_text_languages,
};

/// The maximum number of dimensions of a vector.
const DIMENSIONS_MAX: i64 = 4_096;
/// The maximum number of dimensions with an index of type `flat`, which stores whole vectors.
const DIMENSIONS_FLAT_MAX: i64 = 505;
/// The maximum size of a quantized vector in bytes. The number of dimensions is a limit too.
const QUANTIZED_BYTES_MAX: i64 = 512;

const DATA_TYPES: &[&str] = &["float32", "float16", "int8", "uint8"];
const DISTANCE_FUNCTIONS: &[&str] = &["cosine", "dotproduct", "euclidean"];
const INDEX_TYPES: &[&str] = &["flat", "quantizedFlat", "diskANN"];

/// The checked search settings.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// True if spatial functions compute in a plane (`Geometry`), false for the Earth
    /// (`Geography`).
    pub planar: bool,
    /// The vector paths with data type and distance function.
    pub vectors: Vec<VectorPath>,
    /// The text paths with their languages.
    pub full_text: Vec<(Path, String)>,
    /// The language of all other texts.
    pub default_language: Option<String>,
    /// The number of dimensions of each entry of `vectors`.
    dimensions: Vec<i64>,
}

fn bad(message: impl Into<String>) -> Error {
    Error::bad(message)
}

impl Search {
    /// Reads the search settings of a container body and adds them to `shown`, the body that a read
    /// shows.
    ///
    /// # Errors
    /// 400, in the service's words where they are known.
    pub fn from_body(body: &Object, policy: &Policy, shown: &mut Object) -> Result<Self> {
        let mut search = Search {
            planar: read_geospatial(member(body, "geospatialConfig"))?,
            ..Search::default()
        };
        let kind = match search.planar {
            true => "Geometry",
            false => "Geography",
        };
        shown.push_new("geospatialConfig", object! { "type" => kind });
        if let Some(vectors) = member(body, "vectorEmbeddingPolicy") {
            search.read_vectors(vectors)?;
            shown.push_new("vectorEmbeddingPolicy", vectors.clone());
        }
        if let Some(texts) = member(body, "fullTextPolicy") {
            search.read_texts(texts)?;
            shown.push_new("fullTextPolicy", texts.clone());
        }

        // Indexes are checked last, because they refer to the paths of the policies.
        for index in policy.spatial_indexes() {
            search.check_spatial_index(index)?;
        }
        for index in policy.vector_indexes() {
            search.check_vector_index(index)?;
        }
        for index in policy.full_text_indexes() {
            search.check_full_text_index(index)?;
        }
        Ok(search)
    }

    fn read_vectors(&mut self, policy: &Json) -> Result<()> {
        let list = policy.get("vectorEmbeddings").and_then(Json::as_array);
        let list =
            list.ok_or_else(|| bad("The Vector Embedding Policy has no list 'vectorEmbeddings'."))?;
        for embedding in list {
            let (vector, dimensions) = self.read_vector(embedding)?;
            self.vectors.push(vector);
            self.dimensions.push(dimensions);
        }
        Ok(())
    }

    /// Reads one entry of `vectorEmbeddings`. Returns the vector path and its number of
    /// dimensions.
    fn read_vector(&self, embedding: &Json) -> Result<(VectorPath, i64)> {
        // Unknown properties would be lost without notice, so they are refused first.
        for (name, value) in embedding.as_object().into_iter().flat_map(Object::iter) {
            match name {
                "path" | "dataType" | "dimensions" | "distanceFunction" => {}
                "embeddingSource" if matches!(value, Json::Null) => {}
                other => {
                    return Err(Error::unsupported(format!(
                        "The vector embedding's property '{other}'"
                    )));
                }
            }
        }
        let path = text_member(embedding, "path");
        let Some(parsed_path) = read_path(path) else {
            return Err(bad(format!(
                "The Vector Embedding Policy has an invalid Path:{path}."
            )));
        };
        if self.vectors.iter().any(|other| other.path == parsed_path) {
            return Err(bad(format!(
                "The Vector Embedding Policy has the Path:{path} twice."
            )));
        }
        // The service reports an invalid word with its own name for the property.
        let data_type = text_member(embedding, "dataType");
        let Some(data_type) = known_word(DATA_TYPES, data_type) else {
            return Err(bad(format!(
                "The Vector Embedding Policy has an invalid DataType:{data_type}."
            )));
        };
        let function = text_member(embedding, "distanceFunction");
        let Some(distance_function) = known_word(DISTANCE_FUNCTIONS, function) else {
            return Err(bad(format!(
                "The Vector Embedding Policy has an invalid DistanceFunction:{function}."
            )));
        };
        let dimensions = read_dimensions(embedding.get("dimensions"))?;
        let vector = VectorPath {
            path: parsed_path,
            data_type,
            distance_function,
        };
        Ok((vector, dimensions))
    }

    fn read_texts(&mut self, policy: &Json) -> Result<()> {
        self.default_language = read_language(policy.get("defaultLanguage"))?;
        let paths = match policy.get("fullTextPaths") {
            None | Some(Json::Null) => return Ok(()),
            Some(paths) => paths
                .as_array()
                .ok_or_else(|| bad("The Full Text Policy's 'fullTextPaths' is no array."))?,
        };
        for entry in paths {
            let text = text_member(entry, "path");
            let is_new = |path: &Path| self.full_text.iter().all(|(other, _)| other != path);
            let Some(path) = read_path(text).filter(is_new) else {
                return Err(bad(format!(
                    "The Full Text Policy contains an invalid Path: {text}."
                )));
            };
            // A path without a language has the default of the policy, or else that of the service.
            let language = read_language(entry.get("language"))?;
            let language = language.or_else(|| self.default_language.clone());
            let language = language.unwrap_or_else(|| DEFAULT_LANGUAGE.to_owned());
            self.full_text.push((path, language));
        }
        Ok(())
    }

    fn check_spatial_index(&self, index: &SearchIndex) -> Result<()> {
        let invalid = |reason: &str| {
            bad(format!(
                "The spatial index on '{}' is invalid: {reason}.",
                index.path
            ))
        };
        let types = index.body.get("types").and_then(Json::as_array);
        for kind in types.unwrap_or_default() {
            if !kind
                .as_str()
                .is_some_and(|kind| GEOMETRY_TYPES.contains(&kind))
            {
                return Err(invalid(
                    "its types must be among Point, LineString, Polygon and MultiPolygon",
                ));
            }
        }

        // A plane has no natural bounds, so its index needs a box; the Earth has no use for one.
        match (self.planar, member(&index.body, "boundingBox")) {
            (false, None) => Ok(()),
            (false, Some(_)) => Err(bad(format!(
                "Incorrect parameter 'boundingBox' specified for 'Geography' collection in spatial \
                 path '{}'.",
                index.path
            ))),
            (true, None) => Err(bad(format!(
                "Required parameter 'boundingBox' for 'Geometry' collection is missing in spatial \
                 path '{}'.",
                index.path
            ))),
            (true, Some(bounds)) => check_bounding_box(bounds, &index.path),
        }
    }

    fn check_vector_index(&self, index: &SearchIndex) -> Result<()> {
        let path = path_of(index);
        let vector = self.vectors.iter().position(|vector| vector.path == path);
        let Some(vector) = vector else {
            let path = &index.path;
            return Err(bad(format!(
                "The Vector Indexing Policy's path::{path} not matching in Embedding's path."
            )));
        };
        let dimensions = self.dimensions[vector];

        let kind = index.body.get("type").and_then(Json::as_str);
        let kind = kind.unwrap_or_default();
        if !INDEX_TYPES.contains(&kind) {
            return Err(bad(format!(
                "The Vector Indexing Policy's Index Type::{kind} is invalid."
            )));
        }
        if kind == "flat" && dimensions > DIMENSIONS_FLAT_MAX {
            return Err(bad(format!(
                "The Vector Indexing Policy's Index Type::flat supports at most \
                 {DIMENSIONS_FLAT_MAX} dimensions, and {} has {dimensions}.",
                index.path
            )));
        }

        for (name, value) in index.body.iter() {
            match name {
                "path" | "type" => {}
                "quantizerType" if matches!(value.as_str(), Some("product" | "spherical")) => {}
                "quantizationByteSize" => {
                    let bytes_max = dimensions.min(QUANTIZED_BYTES_MAX);
                    check_in_range("QuantizationByteSize", value, 1, bytes_max)?;
                }
                "indexingSearchListSize" => {
                    check_in_range("IndexingSearchListSize", value, 25, 500)?;
                }
                "vectorIndexShardKey" => check_shard_key(value)?,
                other => {
                    return Err(Error::unsupported(format!(
                        "The Vector Indexing Policy parameter '{other}' with the value {value}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Returns the vector indexes of a checked policy as the partitions keep them.
    pub(crate) fn stored_vectors(&self, policy: &Policy) -> Vec<VectorIndex> {
        let mut stored = Vec::new();
        for entry in policy.vector_indexes() {
            let path = path_of(entry);
            for (vector, dimensions) in self.vectors.iter().zip(&self.dimensions) {
                if vector.path == path
                    && let Some(data_type) = DataType::parse(&vector.data_type)
                    && let Some(function) = DistanceFunction::parse(&vector.distance_function)
                {
                    let dimensions = *dimensions as usize;
                    stored.push(VectorIndex::of(entry, data_type, dimensions, function));
                }
            }
        }
        stored
    }

    /// Returns the full-text indexes of a checked policy as the partitions keep them.
    pub(crate) fn stored_texts(&self, policy: &Policy) -> Vec<TextIndex> {
        let mut stored = Vec::new();
        for entry in policy.full_text_indexes() {
            let path = path_of(entry);
            for (known, language) in &self.full_text {
                if *known == path {
                    stored.push(TextIndex::of(entry, language));
                }
            }
        }
        stored
    }

    fn check_full_text_index(&self, index: &SearchIndex) -> Result<()> {
        let path = path_of(index);
        if self.full_text.iter().any(|(known, _)| *known == path) {
            return Ok(());
        }
        let path = &index.path;
        Err(bad(format!(
            "The Full Text Indexing Policy's path::{path} not matching in Full Text Policy's path."
        )))
    }

    /// Checks that these settings may replace `old`: the embedding and the index of a vector path
    /// cannot change.
    ///
    /// # Errors
    /// 400 in the service's words.
    pub fn check_replaces(&self, policy: &Policy, old: &Search, old_policy: &Policy) -> Result<()> {
        for (old_vector, old_dimensions) in old.vectors.iter().zip(&old.dimensions) {
            for (vector, dimensions) in self.vectors.iter().zip(&self.dimensions) {
                let is_unchanged = vector.data_type == old_vector.data_type
                    && vector.distance_function == old_vector.distance_function
                    && dimensions == old_dimensions;
                if vector.path == old_vector.path && !is_unchanged {
                    return Err(bad(
                        "Paths in existing embedding policy cannot be modified in Collection \
                         Replace",
                    ));
                }
            }
        }
        check_vector_indexes_kept(policy, old_policy)
    }
}

/// Checks that each spatial index of a new policy names a type. Policies of earlier versions may
/// name none, so the check is not part of reading a policy.
///
/// # Errors
/// 400 with the path of an index without types.
pub(crate) fn check_spatial_types(policy: &Policy) -> Result<()> {
    for index in policy.spatial_indexes() {
        let types = index.body.get("types").and_then(Json::as_array);
        if types.is_none_or(<[Json]>::is_empty) {
            let path = &index.path;
            return Err(bad(format!(
                "The spatial data types array cannot be empty. Spatial index path: '{path}'."
            ))
            .with_help("Name at least one of Point, LineString, Polygon and MultiPolygon."));
        }
    }
    Ok(())
}

/// Checks that a policy keeps each vector index of the old policy that is on a path of both.
///
/// # Errors
/// 400 in the words of older and of newer versions of the service: clients match either.
pub(crate) fn check_vector_indexes_kept(policy: &Policy, old_policy: &Policy) -> Result<()> {
    for old_index in old_policy.vector_indexes() {
        let old_body = Json::Object(old_index.body.clone());
        for index in policy.vector_indexes() {
            let body = Json::Object(index.body.clone());
            if index.names == old_index.names && !deep_equal(&body, &old_body) {
                return Err(bad(
                    "Vector Indexing Policy cannot be changed in Collection Replace: Paths in \
                     existing vector indexing policy cannot be modified in Collection Replace",
                ));
            }
        }
    }
    Ok(())
}

/// Checks that the settings of full-text search in a client's body have no member that would be
/// kept without effect, such as the settings of the analysis: a search would find other items than
/// the client expects. Stored bodies may have such members from earlier versions.
///
/// # Errors
/// 400 that names the member.
pub(crate) fn check_text_settings(body: &Object) -> Result<()> {
    if let Some(policy) = member(body, "fullTextPolicy") {
        let what = "The full text policy's property";
        check_members(policy, &["defaultLanguage", "fullTextPaths"], what)?;
        let what = "The property of a full text path";
        for entry in entries_of(policy, "fullTextPaths") {
            check_members(entry, &["path", "language"], what)?;
        }
    }
    if let Some(policy) = member(body, "indexingPolicy") {
        for entry in entries_of(policy, "fullTextIndexes") {
            check_members(entry, &["path"], "The property of a full text index")?;
        }
    }
    Ok(())
}

/// Returns the entries of a list; none if it is absent or no list.
fn entries_of<'b>(body: &'b Json, list: &str) -> &'b [Json] {
    let entries = body.get(list).and_then(Json::as_array);
    entries.unwrap_or_default()
}

/// Checks that an object has no members but `known`; `null` counts as absent.
///
/// # Errors
/// 400 that names the member, as `what` of the service that is not supported.
fn check_members(json: &Json, known: &[&str], what: &str) -> Result<()> {
    let Some(object) = json.as_object() else {
        return Err(bad(format!(
            "One of the specified inputs is invalid: {} is no object.",
            shortened(&json.to_text())
        )));
    };
    for (name, value) in object.iter() {
        if !known.contains(&name) && *value != Json::Null {
            let name = shortened(name);
            return Err(Error::unsupported(format!("{what} '{name}'")));
        }
    }
    Ok(())
}

fn read_dimensions(json: Option<&Json>) -> Result<i64> {
    let number = json.and_then(Json::as_i64).filter(|number| *number > 0);
    let Some(dimensions) = number else {
        let written = json.map(Json::to_text).unwrap_or_default();
        return Err(bad(format!(
            "The Vector Embedding Policy has Dimensions:{written} which is not a positive number."
        )));
    };
    if dimensions > DIMENSIONS_MAX {
        return Err(bad(format!(
            "The Vector Embedding Policy has Dimensions:{dimensions} which is more than the \
             maximum supported value: {DIMENSIONS_MAX}."
        )));
    }
    Ok(dimensions)
}

/// Reads the code of a language; `None` if it is absent.
fn read_language(json: Option<&Json>) -> Result<Option<String>> {
    let json = match json {
        None | Some(Json::Null) => return Ok(None),
        Some(json) => json,
    };
    match json.as_str() {
        Some(code) if full_text_languages().any(|known| known == code) => Ok(Some(code.to_owned())),
        // The service shows a code without quotation marks.
        Some(code) => Err(bad(format!(
            "The Full Text Policy contains an unsupported language {}.",
            shortened(code)
        ))),
        None => Err(bad(format!(
            "The Full Text Policy contains an unsupported language {json}."
        ))),
    }
}

/// Returns true if the spatial functions of a container compute in a plane.
fn read_geospatial(config: Option<&Json>) -> Result<bool> {
    let Some(config) = config else {
        return Ok(false);
    };
    match config.get("type").and_then(Json::as_str) {
        Some("Geography") => Ok(false),
        Some("Geometry") => Ok(true),
        _ => Err(bad(
            "The geospatialConfig is invalid: its 'type' must be Geography or Geometry.",
        )),
    }
}

/// Checks that the bounds of the spatial index on `path` are finite, with `xmin < xmax` and `ymin <
/// ymax`.
fn check_bounding_box(bounds: &Json, path: &str) -> Result<()> {
    let bound = |name: &str| {
        let number = bounds.get(name).and_then(Json::as_f64);
        number.filter(|number| number.is_finite()).ok_or_else(|| {
            bad(format!(
                "Required parameter '{name}' in 'boundingBox' is missing or no number for spatial \
                 path '{path}'."
            ))
        })
    };
    for (smaller, larger) in [("xmin", "xmax"), ("ymin", "ymax")] {
        if bound(larger)? <= bound(smaller)? {
            return Err(bad(format!(
                "The value of parameter '{larger}' must be greater than the value of parameter \
                 '{smaller}' in 'boundingBox' for spatial path '{path}'."
            )));
        }
    }
    Ok(())
}

/// Returns a string member, or an empty string if it is missing or no string.
fn text_member<'j>(json: &'j Json, name: &str) -> &'j str {
    json.get(name).and_then(Json::as_str).unwrap_or_default()
}

/// Reads a path of a policy that names one value, for example `/a/b`.
fn read_path(text: &str) -> Option<Path> {
    names_of(text).map(path_of_names)
}

fn path_of(index: &SearchIndex) -> Path {
    path_of_names(index.names.to_vec())
}

fn path_of_names(names: Vec<String>) -> Path {
    Path(names.into_iter().map(orrery_sql::Step::Name).collect())
}

/// Returns the word of `words` that equals `text` in any case.
fn known_word(words: &[&str], text: &str) -> Option<String> {
    let word = words.iter().find(|word| word.eq_ignore_ascii_case(text));
    word.map(|word| (*word).to_owned())
}

fn check_in_range(parameter: &str, value: &Json, min: i64, max: i64) -> Result<()> {
    let number = value.as_i64();
    if number.is_some_and(|number| (min..=max).contains(&number)) {
        return Ok(());
    }
    Err(bad(format!(
        "The Vector Indexing Policy parameter {parameter} value :: {value} is out of range. The \
         allowed range is between {min} and {max}."
    )))
}

fn check_shard_key(value: &Json) -> Result<()> {
    let paths = value
        .as_array()
        .ok_or_else(|| bad("One of the specified inputs is invalid"))?;
    for path in paths {
        let text = path.as_str().unwrap_or_default();
        // Of the system properties only `_ts` has a value in an index.
        let is_path = names_of(text).is_some_and(|names| match names.first() {
            Some(name) => name == "_ts" || !is_system(name),
            None => false,
        });
        if !is_path {
            return Err(bad(format!(
                "The Vector Indexing Policy has an invalid Shard Path: {text}."
            )));
        }
    }
    if paths.len() > 1 {
        return Err(bad(format!(
            "The number of shard paths defined in the Vector Indexing Policy: {} exceeds the \
             maximum: 1.",
            paths.len()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::container::settings::Settings;
    use orrery_model::json::parse;
    use orrery_model::{Json, Result};

    fn settings(members: &str) -> Result<Settings> {
        let text = format!(r#"{{"id":"c","partitionKey":{{"paths":["/pk"]}},{members}}}"#);
        Settings::from_body(
            parse(text.as_bytes())
                .expect("JSON")
                .as_object()
                .expect("object"),
        )
    }

    const VECTORS: &str = r#""vectorEmbeddingPolicy":{"vectorEmbeddings":[
        {"path":"/v1","dataType":"float32","dimensions":256,"distanceFunction":"euclidean"},
        {"path":"/a/v2","dataType":"int8","dimensions":550,"distanceFunction":"dotproduct"}]}"#;

    #[test]
    fn policies_and_indexes_read_back_as_they_were_sent() {
        let texts = r#""fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[
            {"path":"/text"},{"path":"/german","language":"de-DE"}]}"#;
        let indexes = r#""indexingPolicy":{"includedPaths":[{"path":"/*"}],
            "spatialIndexes":[{"path":"/at/*",
                "types":["Point","LineString","Polygon","MultiPolygon"]}],
            "fullTextIndexes":[{"path":"/text"}],
            "vectorIndexes":[{"path":"/v1","type":"flat"},
                {"path":"/a/v2","type":"diskANN","quantizationByteSize":512,
                 "indexingSearchListSize":50,"vectorIndexShardKey":["/city"]}]}"#;
        let settings = settings(&format!("{VECTORS},{texts},{indexes}")).expect("settings");
        let given = parse(format!("{{{VECTORS},{texts},{indexes}}}").as_bytes()).expect("JSON");
        for name in ["vectorEmbeddingPolicy", "fullTextPolicy"] {
            assert_eq!(settings.shown.get(name), given.get(name), "{name}");
        }
        let policy = settings.shown.get("indexingPolicy").expect("a policy");
        for name in ["spatialIndexes", "vectorIndexes", "fullTextIndexes"] {
            assert_eq!(
                policy.get(name),
                given.get("indexingPolicy").and_then(|p| p.get(name)),
                "{name}"
            );
        }
        assert_eq!(settings.search.full_text[0].1, "en-US");
        assert_eq!(settings.search.vectors[1].path.to_string(), "/a/v2");
        assert_eq!(
            settings
                .shown
                .get("geospatialConfig")
                .map(Json::to_text)
                .as_deref(),
            Some(r#"{"type":"Geography"}"#)
        );
    }

    #[test]
    fn a_container_of_type_geometry_computes_in_a_plane() {
        let plane = r#""geospatialConfig":{"type":"Geometry"}"#;
        assert!(settings(plane).expect("settings").search.planar);
        let boxed = r#""indexingPolicy":{"spatialIndexes":[{"path":"/at/*","types":["Point"],
            "boundingBox":{"xmin":0,"ymin":0,"xmax":10,"ymax":10}}]}"#;
        assert!(settings(&format!("{plane},{boxed}")).is_ok());
        assert!(settings(boxed).is_err());
        assert!(settings(r#""geospatialConfig":{"type":"Moon"}"#).is_err());
    }

    /// Checks that container bodies with these members are refused with these words.
    fn check_refused(cases: &[(String, &str)]) {
        for (members, words) in cases {
            let error = settings(members).expect_err(members);
            assert!(
                error.message().contains(words),
                "{error} should say {words}"
            );
        }
    }

    #[test]
    fn invalid_vector_indexes_are_refused_in_the_words_of_the_service() {
        let index =
            |index: &str| format!(r#"{VECTORS},"indexingPolicy":{{"vectorIndexes":[{index}]}}"#);
        check_refused(&[
            (
                r#""indexingPolicy":{"vectorIndexes":[{"path":"/v1","type":"flat"}]}"#.to_owned(),
                "v1 not matching in Embedding's path",
            ),
            (
                index(r#"{"path":"/v1","type":"notFlat"}"#),
                "Index Type::notFlat is invalid",
            ),
            (
                index(r#"{"path":"/v3","type":"flat"}"#),
                "v3 not matching in Embedding's path",
            ),
            (
                index(r#"{"path":"/a/v2","type":"flat"}"#),
                "at most 505 dimensions",
            ),
            (
                index(r#"{"path":"/v1","type":"quantizedFlat","quantizationByteSize":0}"#),
                "The Vector Indexing Policy parameter QuantizationByteSize value :: 0 is out of \
                 range. The allowed range is between 1 and 256.",
            ),
            (
                index(r#"{"path":"/a/v2","type":"quantizedFlat","quantizationByteSize":513}"#),
                "QuantizationByteSize value :: 513 is out of range.",
            ),
            (
                index(r#"{"path":"/v1","type":"diskANN","indexingSearchListSize":5}"#),
                "IndexingSearchListSize value :: 5 is out of range. The allowed range is between \
                 25 and 500.",
            ),
            (
                index(r#"{"path":"/v1","type":"diskANN","vectorIndexShardKey":["country"]}"#),
                "The Vector Indexing Policy has an invalid Shard Path: country.",
            ),
            (
                index(r#"{"path":"/v1","type":"diskANN","vectorIndexShardKey":["/a","/b","/c"]}"#),
                "The number of shard paths defined in the Vector Indexing Policy: 3 exceeds the \
                 maximum: 1.",
            ),
            (
                index(r#"{"path":"/v1","type":"diskANN","vectorIndexShardKey":["/_etag"]}"#),
                "The Vector Indexing Policy has an invalid Shard Path: /_etag.",
            ),
            (
                index(r#"{"path":"/v1","type":"diskANN","vectorIndexShardKey":"/a"}"#),
                "One of the specified inputs is invalid",
            ),
            (
                index(r#"{"path":"/v1","type":"flat","wheels":4}"#),
                "wheels",
            ),
        ]);
    }

    #[test]
    fn invalid_search_policies_are_refused_in_the_words_of_the_service() {
        let vector = |kind: &str, dimensions: &str, function: &str| {
            format!(
                r#""vectorEmbeddingPolicy":{{"vectorEmbeddings":[{{"path":"/v","dataType":"{kind}",
                    "dimensions":{dimensions},"distanceFunction":"{function}"}}]}}"#
            )
        };
        check_refused(&[
            (
                vector("float64", "3", "cosine"),
                "Vector Embedding Policy has an invalid DataType",
            ),
            (
                vector("float32", "8000", "cosine"),
                "Vector Embedding Policy has Dimensions:8000 which is more than the maximum \
                 supported value",
            ),
            (
                vector("float32", "-1", "cosine"),
                "The Vector Embedding Policy has Dimensions:-1",
            ),
            (
                vector("float32", "3", "handMeasured"),
                "The Vector Embedding Policy has an invalid DistanceFunction:handMeasured",
            ),
            (
                r#""fullTextPolicy":{"fullTextPaths":[{"path":"abstract"}]}"#.to_owned(),
                "The Full Text Policy contains an invalid Path: abstract",
            ),
            (
                r#""fullTextPolicy":{"defaultLanguage":"spa-SPA"}"#.to_owned(),
                "spa-SPA",
            ),
            (
                r#""fullTextPolicy":{"fullTextPaths":[{"path":"/t","language":"en-us"}]}"#
                    .to_owned(),
                "en-us",
            ),
            (
                r#""indexingPolicy":{"fullTextIndexes":[{"path":"/t"}]}"#.to_owned(),
                "not matching",
            ),
            (
                r#""indexingPolicy":{"fullTextIndexes":[{"not_path":"/t"}]}"#.to_owned(),
                "path",
            ),
            (
                r#""indexingPolicy":{"spatialIndexes":[{"path":"/at/*","types":["Circle"]}]}"#
                    .to_owned(),
                "MultiPolygon",
            ),
        ]);
    }

    #[test]
    fn settings_of_the_analysis_of_texts_are_refused_by_name() {
        let policy = |members: &str| format!(r#""fullTextPolicy":{{{members}}}"#);
        let path = |members: &str| {
            let entry = format!(r#"{{"path":"/t","language":"en-US",{members}}}"#);
            policy(&format!(r#""fullTextPaths":[{entry}]"#))
        };
        let index = r#""fullTextPolicy":{"fullTextPaths":[{"path":"/t"}]},"indexingPolicy":
            {"fullTextIndexes":[{"path":"/t","tokenizer":"word"}]}"#;
        check_refused(&[
            (
                policy(r#""package":"standard""#),
                "'package' is not supported",
            ),
            (
                policy(r#""defaultSpec":{"filters":["stem"]}"#),
                "'defaultSpec'",
            ),
            (path(r#""tokenizer":"word""#), "'tokenizer'"),
            (path(r#""filters":["lowercase"]"#), "'filters'"),
            (path(r#""stopWordListKind":"none""#), "'stopWordListKind'"),
            (path(r#""addStopWords":["of"]"#), "'addStopWords'"),
            (path(r#""removeStopWords":["of"]"#), "'removeStopWords'"),
            (index.to_owned(), "'tokenizer'"),
            (r#""fullTextPolicy":"en-US""#.to_owned(), "is no object"),
        ]);
        settings(&policy(r#""package":null,"defaultLanguage":"en-US""#)).expect("null is absent");
    }

    #[test]
    fn a_stored_container_keeps_settings_that_an_earlier_version_accepted() {
        let text = r#"{"id":"c","fullTextPolicy":{"package":"standard","fullTextPaths":[]}}"#;
        let body = parse(text.as_bytes()).expect("JSON");
        let body = body.as_object().expect("an object");
        Settings::from_stored(body).expect("settings");
        Settings::from_body(body).expect_err("a client is told");
    }

    #[test]
    fn invalid_bounding_boxes_are_refused_in_the_words_of_the_service() {
        let index = |kind: &str, bounds: &str| {
            format!(
                r#""geospatialConfig":{{"type":"{kind}"}},"indexingPolicy":{{"spatialIndexes":[
                    {{"path":"/at/*","types":["Point"]{bounds}}}]}}"#
            )
        };
        check_refused(&[
            (
                index(
                    "Geography",
                    r#","boundingBox":{"xmin":0,"ymin":0,"xmax":1,"ymax":1}"#,
                ),
                "Incorrect parameter 'boundingBox' specified for 'Geography' collection",
            ),
            (
                index("Geometry", ""),
                "Required parameter 'boundingBox' for 'Geometry' collection is missing in spatial \
                 path '/at/*'",
            ),
            (
                index(
                    "Geometry",
                    r#","boundingBox":{"xmin":5,"ymin":0,"xmax":5,"ymax":1}"#,
                ),
                "The value of parameter 'xmax' must be greater than the value of parameter 'xmin' \
                 in 'boundingBox' for spatial path '/at/*'",
            ),
            (
                index(
                    "Geometry",
                    r#","boundingBox":{"xmin":0,"ymin":2,"xmax":5,"ymax":1}"#,
                ),
                "The value of parameter 'ymax' must be greater",
            ),
            (
                index(
                    "Geometry",
                    r#","boundingBox":{"xmin":0,"ymin":0,"xmax":"5","ymax":1}"#,
                ),
                "Required parameter 'xmax' in 'boundingBox'",
            ),
        ]);
    }

    #[test]
    fn the_embedding_and_the_index_of_a_vector_path_cannot_change() {
        let with = |dimensions: u32, kind: &str| {
            let vectors = format!(
                r#""vectorEmbeddingPolicy":{{"vectorEmbeddings":[{{"path":"/v","dataType":"float32",
                    "dimensions":{dimensions},"distanceFunction":"cosine"}}]}}"#
            );
            settings(&format!(
                r#"{vectors},"indexingPolicy":{{"vectorIndexes":[{{"path":"/v","type":"{kind}"}}]}}"#
            ))
        };
        let old = with(3, "flat").expect("settings");
        assert!(
            with(3, "flat")
                .expect("settings")
                .check_replaces(&old)
                .is_ok()
        );
        for (changed, words) in [
            (
                with(4, "flat"),
                "Paths in existing embedding policy cannot be modified in Collection Replace",
            ),
            (
                with(3, "diskANN"),
                "Paths in existing vector indexing policy cannot be modified in Collection Replace",
            ),
            (
                with(3, "diskANN"),
                "Vector Indexing Policy cannot be changed in Collection Replace",
            ),
        ] {
            let error = changed
                .expect("settings")
                .check_replaces(&old)
                .expect_err("changed");
            assert!(error.message().contains(words), "{error}");
        }
        assert!(
            settings(r#""defaultTtl":5"#)
                .expect("settings")
                .check_replaces(&old)
                .is_ok()
        );
    }
}
