//! What a container says of its spatial values, vectors and texts: `geospatialConfig`, `vectorEmbeddingPolicy`,
//! `fullTextPolicy`, and the indexes of the indexing policy that need them.
//!
//! The policies steer queries: whether spatial functions compute on the Earth or in a plane, how the vectors of a path
//! are compared, in which language a text is. The indexes are checked and kept; queries read the items until there are
//! any.

use crate::index::policy::{Policy, SearchIndex, names_of};
use orrery_model::json::deep_equal;
use orrery_model::{Error, Json, Object, Result, object};
use orrery_sql::{DEFAULT_LANGUAGE, Path, VectorPath, full_text_languages};

/// Dimensions of a vector at most.
const DIMENSIONS_MOST: i64 = 4_096;
/// The same with an index of type flat, which keeps whole vectors.
const DIMENSIONS_FLAT: i64 = 505;
/// Bytes of a quantized vector at most, whatever its dimensions.
const QUANTIZED_BYTES: i64 = 512;

const DATA_TYPES: &[&str] = &["float32", "float16", "int8", "uint8"];
const DISTANCE_FUNCTIONS: &[&str] = &["cosine", "dotproduct", "euclidean"];
const INDEX_TYPES: &[&str] = &["flat", "quantizedFlat", "diskANN"];
const SPATIAL_TYPES: &[&str] = &["Point", "LineString", "Polygon", "MultiPolygon"];

/// The checked policies.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Spatial functions compute in a plane.
    pub planar: bool,
    /// Vectors by path.
    pub vectors: Vec<VectorPath>,
    /// Languages by path.
    pub full_text: Vec<(Path, String)>,
    /// The language of all other texts.
    pub default_language: Option<String>,
    dimensions: Vec<i64>,
}

fn bad(what: impl Into<String>) -> Error {
    Error::bad(what)
}

fn given<'b>(body: &'b Object, name: &str) -> Option<&'b Json> {
    body.get(name).filter(|value| !matches!(value, Json::Null))
}

impl Search {
    /// Reads the policies of a container body, and adds those that it has to what a read shows.
    ///
    /// # Errors
    /// 400 in the service's words where they are known.
    pub fn from_body(body: &Object, policy: &Policy, shown: &mut Object) -> Result<Self> {
        let mut search = Search {
            planar: read_geospatial(given(body, "geospatialConfig"))?,
            ..Search::default()
        };
        let kind = if search.planar {
            "Geometry"
        } else {
            "Geography"
        };
        shown.push_new("geospatialConfig", object! { "type" => kind });
        if let Some(vectors) = given(body, "vectorEmbeddingPolicy") {
            search.read_vectors(vectors)?;
            shown.push_new("vectorEmbeddingPolicy", vectors.clone());
        }
        if let Some(texts) = given(body, "fullTextPolicy") {
            search.read_texts(texts)?;
            shown.push_new("fullTextPolicy", texts.clone());
        }
        policy
            .spatial_indexes()
            .iter()
            .try_for_each(|index| search.check_spatial_index(index))?;
        policy
            .vector_indexes()
            .iter()
            .try_for_each(|index| search.check_vector_index(index))?;
        policy
            .full_text_indexes()
            .iter()
            .try_for_each(|index| search.check_full_text_index(index))?;
        Ok(search)
    }

    fn read_vectors(&mut self, policy: &Json) -> Result<()> {
        let list = policy.get("vectorEmbeddings").and_then(Json::as_array);
        let list =
            list.ok_or_else(|| bad("The Vector Embedding Policy has no list 'vectorEmbeddings'."))?;
        for embedding in list {
            let text = |name: &str| {
                embedding
                    .get(name)
                    .and_then(Json::as_str)
                    .unwrap_or_default()
            };
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
            let path = read_path(text("path")).ok_or_else(|| {
                bad(format!(
                    "The Vector Embedding Policy has an invalid Path:{}.",
                    text("path")
                ))
            })?;
            if self.vectors.iter().any(|v| v.path == path) {
                return Err(bad(format!(
                    "The Vector Embedding Policy has the Path:{} twice.",
                    text("path")
                )));
            }
            let data_type = known(DATA_TYPES, text("dataType")).ok_or_else(|| {
                bad(format!(
                    "The Vector Embedding Policy has an invalid DataType:{}.",
                    text("dataType")
                ))
            })?;
            let distance_function = known(DISTANCE_FUNCTIONS, text("distanceFunction"))
                .ok_or_else(|| {
                    let function = text("distanceFunction");
                    bad(format!(
                        "The Vector Embedding Policy has an invalid DistanceFunction:{function}."
                    ))
                })?;
            let written = embedding
                .get("dimensions")
                .map(Json::to_text)
                .unwrap_or_default();
            let dimensions = embedding
                .get("dimensions")
                .and_then(Json::as_i64)
                .filter(|d| *d > 0);
            let dimensions = dimensions.ok_or_else(|| {
                bad(format!("The Vector Embedding Policy has Dimensions:{written} which is not a positive number."))
            })?;
            if dimensions > DIMENSIONS_MOST {
                return Err(bad(format!(
                    "The Vector Embedding Policy has Dimensions:{dimensions} which is more than the maximum supported \
                     value: {DIMENSIONS_MOST}."
                )));
            }
            self.vectors.push(VectorPath {
                path,
                data_type,
                distance_function,
            });
            self.dimensions.push(dimensions);
        }
        Ok(())
    }

    fn read_texts(&mut self, policy: &Json) -> Result<()> {
        let language = |json: Option<&Json>| match json {
            None | Some(Json::Null) => Ok(None),
            Some(json) => {
                let code = json
                    .as_str()
                    .filter(|code| full_text_languages().any(|known| known == *code));
                code.map(|code| Some(code.to_owned())).ok_or_else(|| {
                    bad(format!(
                        "The Full Text Policy contains an unsupported language: {json}."
                    ))
                })
            }
        };
        self.default_language = language(policy.get("defaultLanguage"))?;
        let paths = match policy.get("fullTextPaths") {
            None | Some(Json::Null) => &[],
            Some(paths) => paths
                .as_array()
                .ok_or_else(|| bad("The Full Text Policy's 'fullTextPaths' is no array."))?,
        };
        for entry in paths {
            let text = entry.get("path").and_then(Json::as_str).unwrap_or_default();
            let path = read_path(text)
                .filter(|path| self.full_text.iter().all(|(other, _)| other != path))
                .ok_or_else(|| {
                    bad(format!(
                        "The Full Text Policy contains an invalid Path: {text}."
                    ))
                })?;
            let own = language(entry.get("language"))?.or_else(|| self.default_language.clone());
            self.full_text
                .push((path, own.unwrap_or_else(|| DEFAULT_LANGUAGE.to_owned())));
        }
        Ok(())
    }

    fn check_spatial_index(&self, index: &SearchIndex) -> Result<()> {
        let wrong = |what: &str| {
            bad(format!(
                "The spatial index on '{}' is invalid: {what}.",
                index.path
            ))
        };
        let types = index
            .body
            .get("types")
            .and_then(Json::as_array)
            .unwrap_or_default();
        if !types.iter().all(|kind| {
            kind.as_str()
                .is_some_and(|kind| SPATIAL_TYPES.contains(&kind))
        }) {
            return Err(wrong(
                "its types must be among Point, LineString, Polygon and MultiPolygon",
            ));
        }
        let bounds = index
            .body
            .get("boundingBox")
            .filter(|bounds| !matches!(bounds, Json::Null));
        match (self.planar, bounds) {
            (false, None) => Ok(()),
            (false, Some(_)) => Err(wrong("a bounding box is for containers of type Geometry")),
            (true, None) => Err(wrong("a container of type Geometry needs a bounding box")),
            (true, Some(bounds)) => {
                let of = |name: &str| {
                    bounds
                        .get(name)
                        .and_then(Json::as_f64)
                        .filter(|v| v.is_finite())
                };
                match (of("xmin"), of("ymin"), of("xmax"), of("ymax")) {
                    (Some(left), Some(low), Some(right), Some(high))
                        if left < right && low < high =>
                    {
                        Ok(())
                    }
                    _ => Err(wrong("its bounding box needs xmin < xmax and ymin < ymax")),
                }
            }
        }
    }

    fn check_vector_index(&self, index: &SearchIndex) -> Result<()> {
        let path = Path(
            index
                .names
                .iter()
                .cloned()
                .map(orrery_sql::Step::Name)
                .collect(),
        );
        let Some(at) = self.vectors.iter().position(|vector| vector.path == path) else {
            let path = &index.path;
            return Err(bad(format!(
                "The Vector Indexing Policy's path::{path} not matching in Embedding's path."
            )));
        };
        let kind = index
            .body
            .get("type")
            .and_then(Json::as_str)
            .unwrap_or_default();
        if !INDEX_TYPES.contains(&kind) {
            return Err(bad(format!(
                "The Vector Indexing Policy's Index Type::{kind} is invalid."
            )));
        }
        if kind == "flat" && self.dimensions[at] > DIMENSIONS_FLAT {
            return Err(bad(format!(
                "The Vector Indexing Policy's Index Type::flat supports at most {DIMENSIONS_FLAT} dimensions, and \
                 {} has {}.",
                index.path, self.dimensions[at]
            )));
        }
        for (name, value) in index.body.iter() {
            match name {
                "path" | "type" => {}
                "quantizerType" if matches!(value.as_str(), Some("product" | "spherical")) => {}
                "quantizationByteSize" => {
                    in_range(
                        "QuantizationByteSize",
                        value,
                        1,
                        self.dimensions[at].min(QUANTIZED_BYTES),
                    )?;
                }
                "indexingSearchListSize" => in_range("IndexingSearchListSize", value, 25, 500)?,
                "vectorIndexShardKey" => check_shard_key(value)?,
                other => {
                    let message = format!(
                        "The Vector Indexing Policy parameter '{other}' with the value {value}"
                    );
                    return Err(Error::unsupported(message));
                }
            }
        }
        Ok(())
    }

    fn check_full_text_index(&self, index: &SearchIndex) -> Result<()> {
        let path = Path(
            index
                .names
                .iter()
                .cloned()
                .map(orrery_sql::Step::Name)
                .collect(),
        );
        if self.full_text.iter().any(|(known, _)| *known == path) {
            return Ok(());
        }
        let path = &index.path;
        Err(bad(format!(
            "The Full Text Indexing Policy's path::{path} not matching in Full Text Policy's path."
        )))
    }

    /// Checks that these policies may replace `old`: what is said of the vectors of a path stays.
    ///
    /// # Errors
    /// 400 in the service's words.
    pub fn check_replaces(&self, policy: &Policy, old: &Search, old_policy: &Policy) -> Result<()> {
        for (at, vector) in old.vectors.iter().enumerate() {
            let now = self.vectors.iter().position(|now| now.path == vector.path);
            let same = |now: usize| {
                let new = &self.vectors[now];
                (new.data_type == vector.data_type)
                    && (new.distance_function == vector.distance_function)
                    && (self.dimensions[now] == old.dimensions[at])
            };
            if now.is_some_and(|now| !same(now)) {
                return Err(bad(
                    "Paths in existing embedding policy cannot be modified in Collection Replace",
                ));
            }
        }
        for index in old_policy.vector_indexes() {
            let changed = |new: &&SearchIndex| {
                new.names == index.names
                    && !deep_equal(
                        &Json::Object(new.body.clone()),
                        &Json::Object(index.body.clone()),
                    )
            };
            if policy.vector_indexes().iter().any(|new| changed(&new)) {
                return Err(bad(
                    "Paths in existing vector indexing policy cannot be modified in Collection Replace",
                ));
            }
        }
        Ok(())
    }
}

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

/// A path that names one value, as policies write it: `/a/b`.
fn read_path(text: &str) -> Option<Path> {
    names_of(text).map(|names| Path(names.into_iter().map(orrery_sql::Step::Name).collect()))
}

fn known(all: &[&str], text: &str) -> Option<String> {
    all.iter()
        .find(|one| one.eq_ignore_ascii_case(text))
        .map(|one| (*one).to_owned())
}

fn in_range(parameter: &str, value: &Json, least: i64, most: i64) -> Result<()> {
    if value
        .as_i64()
        .is_some_and(|number| (least..=most).contains(&number))
    {
        return Ok(());
    }
    Err(bad(format!(
        "The Vector Indexing Policy parameter {parameter} value :: {value} is out of range. The allowed range is \
         between {least} and {most}."
    )))
}

fn check_shard_key(value: &Json) -> Result<()> {
    let paths = value
        .as_array()
        .ok_or_else(|| bad("One of the specified inputs is invalid"))?;
    for path in paths {
        let text = path.as_str().unwrap_or_default();
        if names_of(text).is_none() {
            return Err(bad(format!(
                "The Vector Indexing Policy has an invalid Shard Path: {text}."
            )));
        }
    }
    if paths.len() > 1 {
        return Err(bad(format!(
            "The number of shard paths defined in the Vector Indexing Policy: {} exceeds the maximum: 1.",
            paths.len()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::catalog::settings::Settings;
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
    fn policies_and_indexes_read_back_as_they_were_given() {
        let texts = r#""fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/text"},{"path":"/german","language":"de-DE"}]}"#;
        let indexes = r#""indexingPolicy":{"includedPaths":[{"path":"/*"}],
            "spatialIndexes":[{"path":"/at/*","types":["Point"]}],"fullTextIndexes":[{"path":"/text"}],
            "vectorIndexes":[{"path":"/v1","type":"flat"},{"path":"/a/v2","type":"diskANN","quantizationByteSize":512,
                "indexingSearchListSize":50,"vectorIndexShardKey":["/city"]}]}"#;
        let settings = settings(&format!("{VECTORS},{texts},{indexes}")).expect("settings");
        let given = parse(format!("{{{VECTORS},{texts},{indexes}}}").as_bytes()).expect("JSON");
        for name in ["vectorEmbeddingPolicy", "fullTextPolicy"] {
            assert_eq!(settings.body.get(name), given.get(name), "{name}");
        }
        let policy = settings.body.get("indexingPolicy").expect("a policy");
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
                .body
                .get("geospatialConfig")
                .map(Json::to_text)
                .as_deref(),
            Some(r#"{"type":"Geography"}"#)
        );
    }

    #[test]
    fn the_plane_is_a_setting() {
        let plane = r#""geospatialConfig":{"type":"Geometry"}"#;
        assert!(settings(plane).expect("settings").search.planar);
        let boxed = r#""indexingPolicy":{"spatialIndexes":[{"path":"/at/*","types":["Point"],
            "boundingBox":{"xmin":0,"ymin":0,"xmax":10,"ymax":10}}]}"#;
        assert!(settings(&format!("{plane},{boxed}")).is_ok());
        assert!(settings(boxed).is_err());
        assert!(settings(r#""geospatialConfig":{"type":"Moon"}"#).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused_in_the_services_words() {
        let index =
            |index: &str| format!(r#"{VECTORS},"indexingPolicy":{{"vectorIndexes":[{index}]}}"#);
        let vector = |kind: &str, dimensions: &str, function: &str| {
            format!(
                r#""vectorEmbeddingPolicy":{{"vectorEmbeddings":[{{"path":"/v","dataType":"{kind}",
                    "dimensions":{dimensions},"distanceFunction":"{function}"}}]}}"#
            )
        };
        for (members, words) in [
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
                "The Vector Indexing Policy parameter QuantizationByteSize value :: 0 is out of range. The allowed range is between 1 and 256.",
            ),
            (
                index(r#"{"path":"/a/v2","type":"quantizedFlat","quantizationByteSize":513}"#),
                "QuantizationByteSize value :: 513 is out of range.",
            ),
            (
                index(r#"{"path":"/v1","type":"diskANN","indexingSearchListSize":5}"#),
                "IndexingSearchListSize value :: 5 is out of range. The allowed range is between 25 and 500.",
            ),
            (
                index(r#"{"path":"/v1","type":"diskANN","vectorIndexShardKey":["country"]}"#),
                "The Vector Indexing Policy has an invalid Shard Path: country.",
            ),
            (
                index(r#"{"path":"/v1","type":"diskANN","vectorIndexShardKey":["/a","/b","/c"]}"#),
                "The number of shard paths defined in the Vector Indexing Policy: 3 exceeds the maximum: 1.",
            ),
            (
                index(r#"{"path":"/v1","type":"diskANN","vectorIndexShardKey":"/a"}"#),
                "One of the specified inputs is invalid",
            ),
            (
                index(r#"{"path":"/v1","type":"flat","wheels":4}"#),
                "wheels",
            ),
            (
                vector("float64", "3", "cosine"),
                "Vector Embedding Policy has an invalid DataType",
            ),
            (
                vector("float32", "8000", "cosine"),
                "Vector Embedding Policy has Dimensions:8000 which is more than the maximum supported value",
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
        ] {
            let error = settings(&members).expect_err(&members);
            assert!(
                error.message().contains(words),
                "{error} should say {words}"
            );
        }
    }

    #[test]
    fn what_is_said_of_a_path_of_vectors_stays() {
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
            (with(4, "flat"), "embedding policy"),
            (with(3, "diskANN"), "vector indexing policy"),
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
