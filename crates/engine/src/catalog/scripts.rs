//! Stored procedures, triggers and user-defined functions as resources. Running them is `crate::items::scripts`.

use super::containers::Container;
use super::records::{Kind, Meta, Record};
use super::{Catalog, RowChanges, resource_id};
use crate::request::properties::{self, Property, stored};
use crate::request::{Id, Resource, ScriptKind};
use orrery_model::rid::{CHILD_NUMBERS, ChildKind};
use orrery_model::sync::lock;
use orrery_model::{Error, Json, Kind as ErrorKind, Object, Result, Rid, limits, object};
use std::sync::Arc;

/// How a container finds a script.
pub(super) type ScriptKey = (ScriptKind, String);

/// A script.
#[derive(Clone, Debug)]
pub struct Script {
    /// What it is.
    pub kind: ScriptKind,
    /// Ids and times.
    pub meta: Meta,
    body: Object,
}

/// What the body of a script must say; the last two that of a trigger only.
const PROPERTIES: &[Property] = &[
    stored("id", "kept"),
    stored("body", "kept as it is; compiled when it runs"),
    stored(
        "triggerType",
        "kept, of triggers: `Pre` or `Post`, in any case",
    ),
    stored(
        "triggerOperation",
        "kept, of triggers: `All`, `Create`, `Update`, `Delete`, `Replace` or `Upsert`, in any case",
    ),
];

/// One row for each kind of script.
struct KindRow {
    kind: ScriptKind,
    record: Kind,
    child: ChildKind,
    segment: &'static str,
    count_max: usize,
    /// The members that a body must have, and no others.
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
    /// All kinds.
    pub const ALL: [ScriptKind; 3] = [
        ScriptKind::Procedure,
        ScriptKind::Trigger,
        ScriptKind::Function,
    ];

    /// How many of this kind a container may have.
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
        let row = KINDS
            .iter()
            .find(|row| row.record == record.kind)
            .ok_or_else(Record::damaged)?;
        Ok(Script {
            kind: row.kind,
            meta: record.meta,
            body: record.body,
        })
    }

    /// A procedure that stands in no catalog.
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

    /// Its id.
    pub fn id(&self) -> &str {
        self.body
            .get("id")
            .and_then(Json::as_str)
            .unwrap_or_default()
    }

    /// Its source text.
    pub fn source(&self) -> &str {
        self.body
            .get("body")
            .and_then(Json::as_str)
            .unwrap_or_default()
    }

    /// A trigger's `triggerType`: `Pre` or `Post`.
    pub fn trigger_type(&self) -> &str {
        one_of(&self.body, "triggerType", TRIGGER_TYPES).unwrap_or_default()
    }

    /// A trigger's `triggerOperation`.
    pub fn trigger_operation(&self) -> &str {
        one_of(&self.body, "triggerOperation", TRIGGER_OPERATIONS).unwrap_or_default()
    }

    /// As a client reads it.
    pub fn resource(&self, container: &Container, created: bool) -> Resource {
        let link = format!(
            "{}{}/{}/",
            container.self_link(),
            self.kind.row().segment,
            self.meta.rid
        );
        Resource {
            body: self.meta.text(&self.body, &link, &[]),
            etag: self.meta.etag_text(),
            rid: self.meta.rid,
            created,
        }
    }
}

/// The members a script body must and may have, checked.
fn checked_body(kind: ScriptKind, body: &Object) -> Result<Object> {
    let mut checked = Object::new();
    for Property { name: member, .. } in kind.row().members {
        let missing = || {
            Error::bad(format!(
                "The input content is invalid because the required properties - '{member}; ' - are missing"
            ))
        };
        let text = body
            .get(member)
            .and_then(Json::as_str)
            .ok_or_else(missing)?;
        checked.set(*member, text);
    }
    resource_id(&checked)?;
    properties::check("script", body, kind.row().members, None)?;
    if checked
        .get("body")
        .and_then(Json::as_str)
        .is_some_and(|source| source.trim().is_empty())
    {
        return Err(Error::new(
            ErrorKind::ScriptCompile,
            "Encountered exception while compiling Javascript. The body is empty.",
        ));
    }
    if kind == ScriptKind::Trigger {
        one_of(&checked, "triggerType", TRIGGER_TYPES)?;
        one_of(&checked, "triggerOperation", TRIGGER_OPERATIONS)?;
    }
    Ok(checked)
}

const TRIGGER_TYPES: &[&str] = &["Pre", "Post"];
const TRIGGER_OPERATIONS: &[&str] = &["All", "Create", "Update", "Delete", "Replace", "Upsert"];

/// The word of `allowed` that a member says in whatever case. The member itself is kept as it was given: clients
/// compare it with what they sent.
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
    /// The script that a path addresses.
    ///
    /// # Errors
    /// 404.
    pub fn find_script(
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

    /// Creates a script, or replaces the one of its id if `upsert`.
    ///
    /// # Errors
    /// 409, 400, and 403 when the container is full of them.
    pub fn create_script(
        &self,
        container: &Container,
        kind: ScriptKind,
        body: &Object,
        upsert: bool,
    ) -> Result<Resource> {
        let body = checked_body(kind, body)?;
        let _writing = lock(&self.write_lock);
        let id = resource_id(&body)?;
        let rid = match container.script(kind, id) {
            Some(_) if !upsert => return Err(Error::conflict()),
            Some(old) => Some(old.meta.rid),
            None => None,
        };
        if rid.is_none() && container.scripts(kind).len() >= kind.row().count_max {
            return Err(Error::new(
                ErrorKind::Forbidden,
                format!(
                    "A container has at count_max {} of these.",
                    kind.row().count_max
                ),
            ));
        }
        let created = rid.is_none();
        let rid = rid.unwrap_or_else(|| {
            Rid::child(
                container.rid(),
                kind.row().child,
                self.world.random() % CHILD_NUMBERS,
            )
        });
        self.put_script(
            container,
            Script {
                kind,
                meta: self.new_meta(rid),
                body,
            },
            created,
        )
    }

    /// Replaces a script.
    ///
    /// # Errors
    /// 404, 412, 400, and 409 if its new id is taken.
    pub fn replace_script(
        &self,
        container: &Container,
        kind: ScriptKind,
        id: Id<'_>,
        body: &Object,
        if_match: Option<&str>,
    ) -> Result<Resource> {
        let body = checked_body(kind, body)?;
        let _writing = lock(&self.write_lock);
        let old = self.find_script(container, kind, id)?;
        old.meta.check_if_match(if_match)?;
        let new_id = resource_id(&body)?;
        if new_id != old.id() {
            if container.script(kind, new_id).is_some() {
                return Err(Error::conflict());
            }
            container.remove_script(kind, old.id());
        }
        self.put_script(
            container,
            Script {
                kind,
                meta: self.new_meta(old.meta.rid),
                body,
            },
            false,
        )
    }

    /// Deletes a script.
    ///
    /// # Errors
    /// 404, 412.
    pub fn delete_script(
        &self,
        container: &Container,
        kind: ScriptKind,
        id: Id<'_>,
        if_match: Option<&str>,
    ) -> Result<()> {
        let _writing = lock(&self.write_lock);
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
