//! Stored procedures, triggers and user-defined functions as resources.
//!
//! Left out: their execution, see `crate::items::scripts`.

use super::containers::Container;
use super::records::{Kind, Meta, Record};
use super::{Catalog, RowChanges};
use crate::request::ids::resource_id;
use crate::request::properties::{self, Property, stored};
use crate::request::{Id, Resource, ScriptKind};
use orrery_model::rid::{CHILD_NUMBERS, ChildKind};
use orrery_model::{Error, Json, Kind as ErrorKind, Object, Result, Rid, limits, object};
use std::sync::Arc;

/// The key of a script in its container: kind and id.
pub(super) type ScriptKey = (ScriptKind, String);

/// A script.
#[derive(Clone, Debug)]
pub struct Script {
    /// The kind of the script.
    pub kind: ScriptKind,
    /// The system properties of the script.
    pub meta: Meta,
    body: Object,
}

/// The properties of a script body, all of them required. The last two are only for triggers.
const PROPERTIES: &[Property] = &[
    stored("id", "kept"),
    stored("body", "kept as it is; compiled when it runs"),
    stored(
        "triggerType",
        "kept, of triggers: `Pre` or `Post`, in any case",
    ),
    stored(
        "triggerOperation",
        "kept, of triggers: `All`, `Create`, `Update`, `Delete`, `Replace` or `Upsert`, in any \
         case",
    ),
];

/// The properties of one kind of script.
struct KindRow {
    kind: ScriptKind,
    record: Kind,
    child: ChildKind,
    /// The segment of the kind in paths and links.
    segment: &'static str,
    /// The number of scripts of this kind that a container may have.
    count_max: usize,
    /// The members of a body, all of them required.
    members: &'static [Property],
}

const KINDS: [KindRow; 3] = [
    KindRow {
        kind: ScriptKind::Procedure,
        record: Kind::Procedure,
        child: ChildKind::Procedure,
        segment: "sprocs",
        count_max: limits::PROCEDURES_PER_CONTAINER,
        members: PROPERTIES.split_at(2).0,
    },
    KindRow {
        kind: ScriptKind::Trigger,
        record: Kind::Trigger,
        child: ChildKind::Trigger,
        segment: "triggers",
        count_max: limits::TRIGGERS_PER_CONTAINER,
        members: PROPERTIES,
    },
    KindRow {
        kind: ScriptKind::Function,
        record: Kind::Function,
        child: ChildKind::Function,
        segment: "udfs",
        count_max: limits::FUNCTIONS_PER_CONTAINER,
        members: PROPERTIES.split_at(2).0,
    },
];

impl ScriptKind {
    /// All kinds of scripts.
    pub const ALL: [ScriptKind; 3] = [
        ScriptKind::Procedure,
        ScriptKind::Trigger,
        ScriptKind::Function,
    ];

    /// Returns the number of scripts of this kind that a container may have.
    pub(crate) fn count_max(self) -> usize {
        self.row().count_max
    }

    fn row(self) -> &'static KindRow {
        KINDS
            .iter()
            .find(|row| row.kind == self)
            .expect("every kind has a row")
    }
}

impl From<ScriptKind> for Kind {
    fn from(kind: ScriptKind) -> Kind {
        kind.row().record
    }
}

impl Script {
    pub(super) fn from_record(record: Record) -> Result<Script> {
        let row = KINDS.iter().find(|row| row.record == record.kind);
        Ok(Script {
            kind: row.ok_or_else(Record::damaged)?.kind,
            meta: record.meta,
            body: record.body,
        })
    }

    /// Creates a stored procedure that is in no catalog.
    pub fn procedure(id: &str, source: &str) -> Script {
        let meta = Meta {
            rid: Rid::database(0),
            ts: 0,
            etag: 0,
        };
        Script {
            kind: ScriptKind::Procedure,
            meta,
            body: object! { "id" => id, "body" => source },
        }
    }

    fn text_member(&self, name: &str) -> &str {
        let value = self.body.get(name).and_then(Json::as_str);
        value.unwrap_or_default()
    }

    /// Returns the id of the script.
    pub fn id(&self) -> &str {
        self.text_member("id")
    }

    /// Returns the JavaScript source.
    pub fn source(&self) -> &str {
        self.text_member("body")
    }

    /// Returns the `triggerType` of a trigger: `Pre` or `Post`.
    pub fn trigger_type(&self) -> &str {
        one_of(&self.body, "triggerType", TRIGGER_TYPES).unwrap_or_default()
    }

    /// Returns the `triggerOperation` of a trigger.
    pub fn trigger_operation(&self) -> &str {
        one_of(&self.body, "triggerOperation", TRIGGER_OPERATIONS).unwrap_or_default()
    }

    /// Returns the script as clients read it.
    pub fn resource(&self, container: &Container, created: bool) -> Resource {
        let container_link = container.self_link();
        let segment = self.kind.row().segment;
        let link = format!("{container_link}{segment}/{}/", self.meta.rid);
        Resource {
            body: self.meta.text(&self.body, &link, &[]),
            etag: self.meta.etag_text(),
            rid: self.meta.rid,
            created,
        }
    }
}

/// Returns the members of a script body after checking them.
///
/// # Errors
/// 400.
fn checked_body(kind: ScriptKind, body: &Object) -> Result<Object> {
    let properties = kind.row().members;
    let mut checked = Object::new();
    for Property { name, .. } in properties {
        let Some(text) = body.get(name).and_then(Json::as_str) else {
            return Err(Error::bad(format!(
                "The input content is invalid because the required properties - '{name}; ' - \
                 are missing"
            ))
            .with_help(format!(
                "The members of this resource are {}, all texts.",
                properties
                    .iter()
                    .map(|p| p.name)
                    .collect::<Vec<_>>()
                    .join(", ")
            )));
        };
        checked.set(*name, text);
    }
    resource_id(&checked)?;
    properties::check("script", body, properties, None)?;

    // The source is compiled at its first execution; only an empty source is refused here.
    let source = checked.get("body").and_then(Json::as_str);
    if source.is_some_and(|source| source.trim().is_empty()) {
        return Err(Error::new(
            ErrorKind::ScriptCompile,
            "Encountered exception while compiling Javascript. The body is empty.",
        )
        .with_help("Write a function: function () { … }."));
    }
    if kind == ScriptKind::Trigger {
        one_of(&checked, "triggerType", TRIGGER_TYPES)?;
        one_of(&checked, "triggerOperation", TRIGGER_OPERATIONS)?;
    }
    Ok(checked)
}

const TRIGGER_TYPES: &[&str] = &["Pre", "Post"];
const TRIGGER_OPERATIONS: &[&str] = &["All", "Create", "Update", "Delete", "Replace", "Upsert"];

/// Returns the word of `allowed` that a member equals in any case.
///
/// The member itself is stored as it was sent, because clients compare the stored text with theirs.
///
/// # Errors
/// 400 if the member equals none of the words.
fn one_of(body: &Object, name: &str, allowed: &[&'static str]) -> Result<&'static str> {
    let text = body.get(name).and_then(Json::as_str).unwrap_or_default();
    let found = allowed.iter().find(|word| word.eq_ignore_ascii_case(text));
    found.copied().ok_or_else(|| {
        Error::bad(format!(
            "The {name} '{text}' is invalid; it is one of {}.",
            allowed.join(", ")
        ))
    })
}

impl Catalog {
    /// Returns a script.
    ///
    /// # Errors
    /// 404 if there is none.
    pub(crate) fn find_script(
        &self,
        container: &Container,
        kind: ScriptKind,
        id: Id<'_>,
    ) -> Result<Arc<Script>> {
        let found = match id {
            Id::Name(name) => container.script(kind, name),
            Id::Rid(rid) => container
                .scripts(kind)
                .into_iter()
                .find(|s| s.meta.rid == rid),
        };
        found.ok_or_else(Error::not_found)
    }

    /// Creates a script, or replaces the script of the same id if `upsert`.
    ///
    /// # Errors
    /// 400 for an invalid body, 403 if the container has the maximum number already, 409 if the id
    /// is taken.
    pub(crate) fn create_script(
        &self,
        container: &Container,
        kind: ScriptKind,
        body: &Object,
        upsert: bool,
    ) -> Result<Resource> {
        let body = checked_body(kind, body)?;
        let _writing = self.begin_change()?;
        self.check_current(container)?;
        let id = resource_id(&body)?;
        let old = container.script(kind, id);
        if old.is_some() && !upsert {
            return Err(Error::conflict());
        }
        let KindRow {
            child, count_max, ..
        } = *kind.row();
        if old.is_none() && container.scripts(kind).len() >= count_max {
            return Err(Error::new(
                ErrorKind::Forbidden,
                format!("A container has at most {count_max} of these."),
            ));
        }
        // A replaced script keeps its resource id.
        let rid = match &old {
            Some(old) => old.meta.rid,
            None => {
                let number = self.world.random() % CHILD_NUMBERS;
                Rid::child(container.rid(), child, number)
            }
        };
        let meta = self.new_meta(rid);
        self.put_script(container, Script { kind, meta, body }, old.is_none())
    }

    /// Replaces a script.
    ///
    /// # Errors
    /// 400 for an invalid body, 404, 409 if the new id is taken, 412.
    pub(crate) fn replace_script(
        &self,
        container: &Container,
        kind: ScriptKind,
        id: Id<'_>,
        body: &Object,
        if_match: Option<&str>,
    ) -> Result<Resource> {
        let body = checked_body(kind, body)?;
        let _writing = self.begin_change()?;
        self.check_current(container)?;
        let old = self.find_script(container, kind, id)?;
        old.meta.check_if_match(if_match)?;
        let new_id = resource_id(&body)?.to_owned();
        let is_renamed = new_id != old.id();
        if is_renamed && container.script(kind, &new_id).is_some() {
            return Err(Error::conflict());
        }
        let meta = self.new_meta(old.meta.rid);
        let replaced = self.put_script(container, Script { kind, meta, body }, false)?;
        if is_renamed {
            container.remove_script(kind, old.id());
        }
        Ok(replaced)
    }

    /// Deletes a script.
    ///
    /// # Errors
    /// 404, 412.
    pub(crate) fn delete_script(
        &self,
        container: &Container,
        kind: ScriptKind,
        id: Id<'_>,
        if_match: Option<&str>,
    ) -> Result<()> {
        let _writing = self.begin_change()?;
        self.check_current(container)?;
        let old = self.find_script(container, kind, id)?;
        old.meta.check_if_match(if_match)?;
        let mut changes = RowChanges::default();
        changes.delete(kind.into(), old.meta.rid);
        self.commit(changes)?;
        container.remove_script(kind, old.id());
        Ok(())
    }

    fn put_script(&self, container: &Container, script: Script, created: bool) -> Result<Resource> {
        let record = Record {
            kind: script.kind.into(),
            meta: script.meta,
            body: script.body.clone(),
            internal: Object::new(),
        };
        let mut changes = RowChanges::default();
        changes.put(&record);
        self.commit(changes)?;
        let resource = script.resource(container, created);
        container.add_script(script);
        Ok(resource)
    }
}
