//! Resources that are nothing but their checked body: users, their permissions, and client encryption keys.
//!
//! What they have in common is here, once: one table of the kinds, and one way to create, read, replace and delete
//! each. A user or key belongs to a database and goes with it, a permission belongs to a user and goes with it.
//! What a permission's token looks like is not known here: who asks brings a [`Mint`].

use super::permissions::Grant;
use super::records::{Kind, Meta, Record};
use super::{Batch, Catalog, State, permissions, resource_id};
use crate::request::{Id, PlainKind, Resource};
use crate::transaction::etag_matches;
use orrery_model::{Error, Json, Kind as ErrorKind, Object, Result, Rid, limits, object};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError};

/// Writes the token of a permission (`_token`) at the time of an answer.
#[derive(Clone, Copy)]
pub struct Mint<'a>(pub &'a dyn Fn(&Grant) -> String);

impl fmt::Debug for Mint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mint")
    }
}

/// A user, a permission or a client encryption key.
#[derive(Clone, Debug)]
pub struct Plain {
    /// What it is.
    pub kind: PlainKind,
    /// Ids and times.
    pub meta: Meta,
    /// The millisecond in which it was created; lists are in this order.
    pub created: u64,
    body: Object,
}

/// All of them, by kind, owner and id.
pub(super) type Plains = BTreeMap<(PlainKind, Rid, String), Arc<Plain>>;

/// One row for each kind.
struct KindRow {
    kind: PlainKind,
    record: Kind,
    segment: &'static str,
    /// Members that a read shows and no client sets.
    own: &'static [(&'static str, &'static str)],
    /// How many an owner may have.
    most: usize,
    check: fn(&Object) -> Result<Object>,
    check_replaces: fn(&Object, &Object) -> Result<()>,
}

const KINDS: [KindRow; 3] = [
    KindRow {
        kind: PlainKind::User,
        record: Kind::User,
        segment: "users",
        own: &[("_permissions", "permissions/")],
        most: usize::MAX,
        check: |body| checked(body, "user", &[]),
        check_replaces: |_, _| Ok(()),
    },
    KindRow {
        kind: PlainKind::Permission,
        record: Kind::Permission,
        segment: "permissions",
        own: &[],
        most: usize::MAX,
        check: permissions::checked_body,
        check_replaces: |_, _| Ok(()),
    },
    KindRow {
        kind: PlainKind::EncryptionKey,
        record: Kind::EncryptionKey,
        segment: "clientencryptionkeys",
        own: &[],
        most: limits::ENCRYPTION_KEYS_PER_DATABASE,
        check: super::encryption::checked_key,
        check_replaces: super::encryption::check_key_replaces,
    },
];

impl PlainKind {
    fn row(self) -> &'static KindRow {
        KINDS
            .iter()
            .find(|row| row.kind == self)
            .expect("every kind has a row")
    }
}

/// The id and the named members of a body; each must be there, and no other may.
pub(super) fn checked(body: &Object, what: &str, members: &[&str]) -> Result<Object> {
    let mut checked = object! { "id" => resource_id(body)? };
    for member in members {
        let value = body.get(member).filter(|value| !matches!(value, Json::Null)).ok_or_else(|| {
            Error::bad(format!(
                "The input content is invalid because the required properties - '{member}; ' - are missing"
            ))
        })?;
        checked.set(*member, value.clone());
    }
    let unknown = body.iter().find(|(name, value)| {
        checked.get(name).is_none() && !name.starts_with('_') && !matches!(value, Json::Null)
    });
    match unknown {
        Some((name, _)) => Err(Error::bad(format!(
            "The property '{name}' of a {what} is unknown."
        ))),
        None => Ok(checked),
    }
}

impl Plain {
    pub(super) fn from_record(record: Record) -> Result<Plain> {
        let row = KINDS
            .iter()
            .find(|row| row.record == record.kind)
            .ok_or_else(Record::damaged)?;
        let created = record
            .kept
            .get("created")
            .and_then(Json::as_i64)
            .and_then(|ms| u64::try_from(ms).ok());
        let created = created.ok_or_else(Record::damaged)?;
        Ok(Plain {
            kind: row.kind,
            meta: record.meta,
            created,
            body: record.body,
        })
    }

    /// Its id.
    pub fn id(&self) -> &str {
        self.body
            .get("id")
            .and_then(Json::as_str)
            .unwrap_or_default()
    }

    /// The database or user that it belongs to.
    pub fn owner(&self) -> Rid {
        match self.kind {
            PlainKind::User | PlainKind::EncryptionKey => self.meta.rid.database_part(),
            PlainKind::Permission => self.meta.rid.user_part(),
        }
    }

    /// The members that a client sets.
    pub fn body(&self) -> &Object {
        &self.body
    }

    fn self_link(&self) -> String {
        let (rid, segment) = (self.meta.rid, self.kind.row().segment);
        match self.kind {
            PlainKind::Permission => {
                format!(
                    "dbs/{}/users/{}/{segment}/{rid}/",
                    rid.database_part(),
                    rid.user_part()
                )
            }
            PlainKind::User | PlainKind::EncryptionKey => {
                format!("dbs/{}/{segment}/{rid}/", rid.database_part())
            }
        }
    }

    /// As a client reads it.
    pub fn resource(&self, mint: Mint<'_>, created: bool) -> Resource {
        let token = Grant::of(self).map(|grant| mint.0(&grant));
        let own = self
            .kind
            .row()
            .own
            .iter()
            .copied()
            .chain(token.as_deref().map(|token| ("_token", token)));
        let own: Vec<_> = own.collect();
        let body = self.meta.text(&self.body, &self.self_link(), &own);
        Resource {
            body,
            etag: self.meta.etag_text(),
            rid: self.meta.rid,
            created,
        }
    }

    fn record(&self) -> Record {
        let kept = object! { "created" => self.created };
        Record {
            kind: self.kind.row().record,
            meta: self.meta,
            body: self.body.clone(),
            kept,
        }
    }

    fn key(&self) -> (PlainKind, Rid, String) {
        (self.kind, self.owner(), self.id().to_owned())
    }

    fn check_etag(&self, if_match: Option<&str>) -> Result<()> {
        match if_match {
            Some(wanted) if !etag_matches(wanted, &self.meta.etag_text()) => {
                Err(Error::precondition_failed())
            }
            _ => Ok(()),
        }
    }
}

impl State {
    /// Takes one in as it was stored; its database must be there.
    pub(super) fn take_in_plain(&mut self, record: Record) -> Result<()> {
        let plain = Plain::from_record(record)?;
        if !self.databases.contains_key(&plain.meta.rid.database_part()) {
            return Err(Record::damaged());
        }
        self.plains.insert(plain.key(), Arc::new(plain));
        Ok(())
    }

    /// What the owner has of a kind, by id.
    fn plains_of(&self, owner: Rid, kind: PlainKind) -> impl Iterator<Item = &Arc<Plain>> {
        let from_first = self.plains.range((kind, owner, String::new())..);
        from_first
            .take_while(move |((k, o, _), _)| (*k, *o) == (kind, owner))
            .map(|(_, plain)| plain)
    }
}

impl Catalog {
    /// What the owner has of a kind, the oldest first.
    pub fn plains(&self, owner: Rid, kind: PlainKind) -> Vec<Arc<Plain>> {
        let mut all: Vec<_> = self.state().plains_of(owner, kind).cloned().collect();
        all.sort_by_key(|plain| (plain.created, plain.meta.rid));
        all
    }

    /// One of them.
    ///
    /// # Errors
    /// 404.
    pub fn plain(&self, owner: Rid, kind: PlainKind, id: Id<'_>) -> Result<Arc<Plain>> {
        let state = self.state();
        let found = match id {
            Id::Name(name) => state.plains.get(&(kind, owner, name.to_owned())),
            Id::Rid(rid) => state
                .plains_of(owner, kind)
                .find(|plain| plain.meta.rid == rid),
        };
        found.cloned().ok_or_else(Error::not_found)
    }

    /// Creates one, or replaces the one of its id if `upsert`; `mint` writes a permission's token.
    ///
    /// # Errors
    /// 400 for a body that breaks a rule, 404/1003 without its owner, 409 if the id is taken or the user has a permission
    /// for the resource, 403 if the owner has too many.
    pub fn create_plain(
        &self,
        owner: Rid,
        kind: PlainKind,
        body: &Object,
        upsert: bool,
        mint: Mint<'_>,
    ) -> Result<Resource> {
        let body = (kind.row().check)(body)?;
        let id = resource_id(&body)?;
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_owner(owner)?;
        match self.plain(owner, kind, Id::Name(id)) {
            Ok(_) if !upsert => Err(Error::conflict()),
            Ok(old) => self.put_plain((owner, kind), Some(&old), body, mint),
            Err(_) => {
                let KindRow { most, segment, .. } = *kind.row();
                if most < usize::MAX && self.state().plains_of(owner, kind).count() >= most {
                    let told = format!("A database has at most {most} {segment}.");
                    return Err(Error::new(ErrorKind::Forbidden, told));
                }
                self.put_plain((owner, kind), None, body, mint)
            }
        }
    }

    /// Replaces one; its id may change.
    ///
    /// # Errors
    /// 404, 412, 400, and 409 as for a creation.
    pub fn replace_plain(
        &self,
        old: &Plain,
        body: &Object,
        if_match: Option<&str>,
        mint: Mint<'_>,
    ) -> Result<Resource> {
        let body = (old.kind.row().check)(body)?;
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.plain(old.owner(), old.kind, Id::Rid(old.meta.rid))?;
        old.check_etag(if_match)?;
        let id = resource_id(&body)?;
        if id != old.id() && self.plain(old.owner(), old.kind, Id::Name(id)).is_ok() {
            return Err(Error::conflict());
        }
        self.put_plain((old.owner(), old.kind), Some(&old), body, mint)
    }

    /// Deletes one, and a user's permissions with the user.
    ///
    /// # Errors
    /// 404, 412.
    pub fn delete_plain(&self, old: &Plain, if_match: Option<&str>) -> Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.plain(old.owner(), old.kind, Id::Rid(old.meta.rid))?;
        old.check_etag(if_match)?;
        let mut batch = Batch::default();
        let gone = self.remove_plains(vec![old], &mut batch);
        self.commit(batch)?;
        self.forget_plains(&gone);
        Ok(())
    }

    /// The rows that go with a database: its users, their permissions and its keys.
    pub(super) fn remove_plains_of(&self, database: Rid, batch: &mut Batch) -> Vec<Arc<Plain>> {
        let mut gone = self.plains(database, PlainKind::User);
        gone.extend(self.plains(database, PlainKind::EncryptionKey));
        self.remove_plains(gone, batch)
    }

    fn remove_plains(&self, mut gone: Vec<Arc<Plain>>, batch: &mut Batch) -> Vec<Arc<Plain>> {
        let users = gone.iter().filter(|plain| plain.kind == PlainKind::User);
        let theirs: Vec<_> = users
            .flat_map(|user| self.plains(user.meta.rid, PlainKind::Permission))
            .collect();
        gone.extend(theirs);
        gone.iter()
            .for_each(|plain| batch.delete(plain.kind.row().record, plain.meta.rid));
        gone
    }

    pub(super) fn forget_plains(&self, gone: &[Arc<Plain>]) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        gone.iter()
            .for_each(|plain| _ = state.plains.remove(&plain.key()));
    }

    /// Owners are looked up before the lock of writers is taken, and may be gone since.
    fn check_owner(&self, owner: Rid) -> Result<()> {
        let there = if owner.is_user() {
            self.plain(owner.database_part(), PlainKind::User, Id::Rid(owner))
                .is_ok()
        } else {
            self.state().databases.contains_key(&owner)
        };
        if there {
            Ok(())
        } else {
            Err(Error::owner_not_found())
        }
    }

    /// A resource id that none of them has.
    fn new_plain_rid(&self, owner: Rid, kind: PlainKind) -> Rid {
        let make = |number: u64| match kind {
            PlainKind::User => Rid::user(owner, number as u32),
            PlainKind::Permission => Rid::permission(owner, number),
            PlainKind::EncryptionKey => Rid::encryption_key(owner, number as u32),
        };
        std::iter::repeat_with(|| make(self.world.random()))
            .find(|rid| self.plain(owner, kind, Id::Rid(*rid)).is_err())
            .expect("an endless iterator")
    }

    fn put_plain(
        &self,
        (owner, kind): (Rid, PlainKind),
        old: Option<&Plain>,
        body: Object,
        mint: Mint<'_>,
    ) -> Result<Resource> {
        if let Some(old) = old {
            (kind.row().check_replaces)(&old.body, &body)?;
        }
        let created = old.map_or_else(|| self.next_moment(owner, kind), |old| old.created);
        let rid = old.map_or_else(|| self.new_plain_rid(owner, kind), |old| old.meta.rid);
        let plain = Plain {
            kind,
            meta: self.new_meta(rid),
            created,
            body,
        };
        self.check_grants_once(&plain)?;
        let mut batch = Batch::default();
        batch.put(&plain.record());
        self.commit(batch)?;
        let resource = plain.resource(mint, old.is_none());
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        old.map(|old| state.plains.remove(&old.key()));
        state.plains.insert(plain.key(), Arc::new(plain));
        Ok(resource)
    }

    /// The millisecond now, or the next one that no other of this owner was created in: lists are in this order.
    fn next_moment(&self, owner: Rid, kind: PlainKind) -> u64 {
        let newest = self
            .state()
            .plains_of(owner, kind)
            .map(|plain| plain.created)
            .max();
        newest
            .map_or(0, |newest| newest + 1)
            .max(self.world.now_ms())
    }

    /// A user has one permission for a resource and partition key.
    fn check_grants_once(&self, new: &Plain) -> Result<()> {
        let Some(grant) = Grant::of(new) else {
            return Ok(());
        };
        let state = self.state();
        let others = state
            .plains_of(new.owner(), new.kind)
            .filter(|other| other.meta.rid != new.meta.rid);
        let taken = others
            .filter_map(|other| Grant::of(other))
            .any(|other| other.is_for_the_same(&grant));
        if taken {
            Err(Error::conflict())
        } else {
            Ok(())
        }
    }
}
