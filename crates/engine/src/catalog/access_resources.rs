//! Resources that are nothing but their checked body: users, their permissions, and client encryption keys.
//!
//! What they have in common is here, once: one table of the kinds, and one way to create, read, replace and delete
//! each. A user or key belongs to a database and goes with it, a permission belongs to a user and goes with it.
//! What a permission's token looks like is not known here: who asks brings a [`TokenSigner`].

use super::permissions::Grant;
use super::records::{Kind, Meta, Record};
use super::{Batch, Catalog, State, permissions, resource_id};
use crate::request::etag_matches;
use crate::request::{AccessResourceKind, Id, Resource};
use orrery_model::sync::{lock, write};
use orrery_model::{Error, Json, Kind as ErrorKind, Object, Result, Rid, limits, object};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Writes the token of a permission (`_token`) at the time of an answer.
#[derive(Clone, Copy)]
pub struct TokenSigner<'a>(pub &'a dyn Fn(&Grant) -> String);

impl fmt::Debug for TokenSigner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSigner")
    }
}

/// A user, a permission or a client encryption key.
#[derive(Clone, Debug)]
pub struct AccessResource {
    /// What it is.
    pub kind: AccessResourceKind,
    /// Ids and times.
    pub meta: Meta,
    /// The millisecond in which it was created; lists are in this order.
    pub created: u64,
    body: Object,
}

/// All of them, by kind, owner and id.
pub(super) type AccessResources = BTreeMap<(AccessResourceKind, Rid, String), Arc<AccessResource>>;

/// One row for each kind.
struct KindRow {
    kind: AccessResourceKind,
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
        kind: AccessResourceKind::User,
        record: Kind::User,
        segment: "users",
        own: &[("_permissions", "permissions/")],
        most: usize::MAX,
        check: |body| checked(body, "user", &[]),
        check_replaces: |_, _| Ok(()),
    },
    KindRow {
        kind: AccessResourceKind::Permission,
        record: Kind::Permission,
        segment: "permissions",
        own: &[],
        most: usize::MAX,
        check: permissions::checked_body,
        check_replaces: |_, _| Ok(()),
    },
    KindRow {
        kind: AccessResourceKind::EncryptionKey,
        record: Kind::EncryptionKey,
        segment: "clientencryptionkeys",
        own: &[],
        most: limits::ENCRYPTION_KEYS_PER_DATABASE,
        check: super::encryption::checked_key,
        check_replaces: super::encryption::check_key_replaces,
    },
];

impl AccessResourceKind {
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

impl AccessResource {
    pub(super) fn from_record(record: Record) -> Result<AccessResource> {
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
        Ok(AccessResource {
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
            AccessResourceKind::User | AccessResourceKind::EncryptionKey => {
                self.meta.rid.database_part()
            }
            AccessResourceKind::Permission => self.meta.rid.user_part(),
        }
    }

    /// The members that a client sets.
    pub fn body(&self) -> &Object {
        &self.body
    }

    fn self_link(&self) -> String {
        let (rid, segment) = (self.meta.rid, self.kind.row().segment);
        match self.kind {
            AccessResourceKind::Permission => {
                format!(
                    "dbs/{}/users/{}/{segment}/{rid}/",
                    rid.database_part(),
                    rid.user_part()
                )
            }
            AccessResourceKind::User | AccessResourceKind::EncryptionKey => {
                format!("dbs/{}/{segment}/{rid}/", rid.database_part())
            }
        }
    }

    /// As a client reads it.
    pub fn resource(&self, token_signer: TokenSigner<'_>, created: bool) -> Resource {
        let token = Grant::of(self).map(|grant| token_signer.0(&grant));
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

    fn key(&self) -> (AccessResourceKind, Rid, String) {
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
    pub(super) fn take_in_access_resource(&mut self, record: Record) -> Result<()> {
        let resource = AccessResource::from_record(record)?;
        if !self
            .databases
            .contains_key(&resource.meta.rid.database_part())
        {
            return Err(Record::damaged());
        }
        self.access_resources
            .insert(resource.key(), Arc::new(resource));
        Ok(())
    }

    /// What the owner has of a kind, by id.
    fn access_resources_of(
        &self,
        owner: Rid,
        kind: AccessResourceKind,
    ) -> impl Iterator<Item = &Arc<AccessResource>> {
        let from_first = self.access_resources.range((kind, owner, String::new())..);
        from_first
            .take_while(move |((k, o, _), _)| (*k, *o) == (kind, owner))
            .map(|(_, resource)| resource)
    }
}

impl Catalog {
    /// What the owner has of a kind, the oldest first.
    pub fn access_resources(
        &self,
        owner: Rid,
        kind: AccessResourceKind,
    ) -> Vec<Arc<AccessResource>> {
        let mut all: Vec<_> = self
            .state()
            .access_resources_of(owner, kind)
            .cloned()
            .collect();
        all.sort_by_key(|resource| (resource.created, resource.meta.rid));
        all
    }

    /// One of them.
    ///
    /// # Errors
    /// 404.
    pub fn access_resource(
        &self,
        owner: Rid,
        kind: AccessResourceKind,
        id: Id<'_>,
    ) -> Result<Arc<AccessResource>> {
        let state = self.state();
        let found = match id {
            Id::Name(name) => state.access_resources.get(&(kind, owner, name.to_owned())),
            Id::Rid(rid) => state
                .access_resources_of(owner, kind)
                .find(|resource| resource.meta.rid == rid),
        };
        found.cloned().ok_or_else(Error::not_found)
    }

    /// Creates one, or replaces the one of its id if `upsert`; `token_signer` writes a permission's token.
    ///
    /// # Errors
    /// 400 for a body that breaks a rule, 404/1003 without its owner, 409 if the id is taken or the user has a permission
    /// for the resource, 403 if the owner has too many.
    pub fn create_access_resource(
        &self,
        owner: Rid,
        kind: AccessResourceKind,
        body: &Object,
        upsert: bool,
        token_signer: TokenSigner<'_>,
    ) -> Result<Resource> {
        let body = (kind.row().check)(body)?;
        let id = resource_id(&body)?;
        let _writing = lock(&self.writing);
        self.check_owner(owner)?;
        match self.access_resource(owner, kind, Id::Name(id)) {
            Ok(_) if !upsert => Err(Error::conflict()),
            Ok(old) => self.put_access_resource((owner, kind), Some(&old), body, token_signer),
            Err(_) => {
                let KindRow { most, segment, .. } = *kind.row();
                if most < usize::MAX
                    && self.state().access_resources_of(owner, kind).count() >= most
                {
                    let told = format!("A database has at most {most} {segment}.");
                    return Err(Error::new(ErrorKind::Forbidden, told));
                }
                self.put_access_resource((owner, kind), None, body, token_signer)
            }
        }
    }

    /// Replaces one; its id may change.
    ///
    /// # Errors
    /// 404, 412, 400, and 409 as for a creation.
    pub fn replace_access_resource(
        &self,
        old: &AccessResource,
        body: &Object,
        if_match: Option<&str>,
        token_signer: TokenSigner<'_>,
    ) -> Result<Resource> {
        let body = (old.kind.row().check)(body)?;
        let _writing = lock(&self.writing);
        let old = self.access_resource(old.owner(), old.kind, Id::Rid(old.meta.rid))?;
        old.check_etag(if_match)?;
        let id = resource_id(&body)?;
        if id != old.id()
            && self
                .access_resource(old.owner(), old.kind, Id::Name(id))
                .is_ok()
        {
            return Err(Error::conflict());
        }
        self.put_access_resource((old.owner(), old.kind), Some(&old), body, token_signer)
    }

    /// Deletes one, and a user's permissions with the user.
    ///
    /// # Errors
    /// 404, 412.
    pub fn delete_access_resource(
        &self,
        old: &AccessResource,
        if_match: Option<&str>,
    ) -> Result<()> {
        let _writing = lock(&self.writing);
        let old = self.access_resource(old.owner(), old.kind, Id::Rid(old.meta.rid))?;
        old.check_etag(if_match)?;
        let mut batch = Batch::default();
        let gone = self.remove_access_resources(vec![old], &mut batch);
        self.commit(batch)?;
        self.forget_access_resources(&gone);
        Ok(())
    }

    /// The rows that go with a database: its users, their permissions and its keys.
    pub(super) fn remove_access_resources_of(
        &self,
        database: Rid,
        batch: &mut Batch,
    ) -> Vec<Arc<AccessResource>> {
        let mut gone = self.access_resources(database, AccessResourceKind::User);
        gone.extend(self.access_resources(database, AccessResourceKind::EncryptionKey));
        self.remove_access_resources(gone, batch)
    }

    fn remove_access_resources(
        &self,
        mut gone: Vec<Arc<AccessResource>>,
        batch: &mut Batch,
    ) -> Vec<Arc<AccessResource>> {
        let users = gone
            .iter()
            .filter(|resource| resource.kind == AccessResourceKind::User);
        let theirs: Vec<_> = users
            .flat_map(|user| self.access_resources(user.meta.rid, AccessResourceKind::Permission))
            .collect();
        gone.extend(theirs);
        gone.iter()
            .for_each(|resource| batch.delete(resource.kind.row().record, resource.meta.rid));
        gone
    }

    pub(super) fn forget_access_resources(&self, gone: &[Arc<AccessResource>]) {
        let mut state = write(&self.state);
        gone.iter()
            .for_each(|resource| _ = state.access_resources.remove(&resource.key()));
    }

    /// Owners are looked up before the lock of writers is taken, and may be gone since.
    fn check_owner(&self, owner: Rid) -> Result<()> {
        let there = if owner.is_user() {
            self.access_resource(
                owner.database_part(),
                AccessResourceKind::User,
                Id::Rid(owner),
            )
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
    fn new_access_resource_rid(&self, owner: Rid, kind: AccessResourceKind) -> Rid {
        let make = |number: u64| match kind {
            AccessResourceKind::User => Rid::user(owner, number as u32),
            AccessResourceKind::Permission => Rid::permission(owner, number),
            AccessResourceKind::EncryptionKey => Rid::encryption_key(owner, number as u32),
        };
        std::iter::repeat_with(|| make(self.world.random()))
            .find(|rid| self.access_resource(owner, kind, Id::Rid(*rid)).is_err())
            .expect("an endless iterator")
    }

    fn put_access_resource(
        &self,
        (owner, kind): (Rid, AccessResourceKind),
        old: Option<&AccessResource>,
        body: Object,
        token_signer: TokenSigner<'_>,
    ) -> Result<Resource> {
        if let Some(old) = old {
            (kind.row().check_replaces)(&old.body, &body)?;
        }
        let created = old.map_or_else(|| self.next_moment(owner, kind), |old| old.created);
        let rid = old.map_or_else(
            || self.new_access_resource_rid(owner, kind),
            |old| old.meta.rid,
        );
        let resource = AccessResource {
            kind,
            meta: self.new_meta(rid),
            created,
            body,
        };
        self.check_grants_once(&resource)?;
        let mut batch = Batch::default();
        batch.put(&resource.record());
        self.commit(batch)?;
        let answer = resource.resource(token_signer, old.is_none());
        let mut state = write(&self.state);
        old.map(|old| state.access_resources.remove(&old.key()));
        state
            .access_resources
            .insert(resource.key(), Arc::new(resource));
        Ok(answer)
    }

    /// The millisecond now, or the next one that no other of this owner was created in: lists are in this order.
    fn next_moment(&self, owner: Rid, kind: AccessResourceKind) -> u64 {
        let newest = self
            .state()
            .access_resources_of(owner, kind)
            .map(|resource| resource.created)
            .max();
        newest
            .map_or(0, |newest| newest + 1)
            .max(self.world.now_ms())
    }

    /// A user has one permission for a resource and partition key.
    fn check_grants_once(&self, new: &AccessResource) -> Result<()> {
        let Some(grant) = Grant::of(new) else {
            return Ok(());
        };
        let state = self.state();
        let others = state
            .access_resources_of(new.owner(), new.kind)
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
