//! Access resources: users, permissions and client encryption keys.
//!
//! One table ([`KINDS`]) describes the three kinds, and one set of functions creates, reads,
//! replaces and deletes resources of every kind. Users and keys belong to a database and are
//! deleted with it; permissions belong to a user and are deleted with the user.
//!
//! Left out: the format of permission tokens. The caller passes a [`TokenSigner`].

use super::permissions::PermissionContent;
use super::records::{Kind, Meta, Record};
use super::{Catalog, RowChanges, State, permissions};
use crate::request::ids::resource_id;
use crate::request::properties::checked_members;
use crate::request::{AccessResourceKind, Id, Resource};
use orrery_model::sync::write;
use orrery_model::{Error, Json, Kind as ErrorKind, Object, Result, Rid, limits, object};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Milliseconds of a second: lists are ordered by milliseconds, and clients read seconds.
const MILLISECONDS_PER_SECOND: u64 = 1_000;

/// Makes the token (`_token`) that a response shows for a permission.
#[derive(Clone, Copy)]
pub struct TokenSigner<'a>(pub &'a dyn Fn(&PermissionContent) -> String);

impl fmt::Debug for TokenSigner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSigner")
    }
}

/// A user, a permission or a client encryption key.
#[derive(Clone, Debug)]
pub struct AccessResource {
    /// The kind of the resource.
    pub kind: AccessResourceKind,
    /// The system properties of the resource.
    pub meta: Meta,
    /// The millisecond since 1970 in which the resource was created. Lists are in this order.
    pub created: u64,
    body: Object,
}

/// All access resources by kind, owner and id.
pub(super) type AccessResources = BTreeMap<(AccessResourceKind, Rid, String), Arc<AccessResource>>;

/// The properties of one kind.
struct KindRow {
    kind: AccessResourceKind,
    record: Kind,
    /// The segment of the kind in paths and links.
    segment: &'static str,
    /// System properties of this kind with their values.
    kind_properties: &'static [(&'static str, &'static str)],
    /// The number of resources of this kind that an owner may have.
    count_max: usize,
    /// Checks a body. Returns the members that are stored.
    check: fn(&Object) -> Result<Object>,
    /// Checks that the second body may replace the first.
    check_replaces: fn(&Object, &Object) -> Result<()>,
}

const KINDS: [KindRow; 3] = [
    KindRow {
        kind: AccessResourceKind::User,
        record: Kind::User,
        segment: "users",
        kind_properties: &[("_permissions", "permissions/")],
        count_max: usize::MAX,
        check: |body| checked_members(body, "user", &[]),
        check_replaces: |_, _| Ok(()),
    },
    KindRow {
        kind: AccessResourceKind::Permission,
        record: Kind::Permission,
        segment: "permissions",
        kind_properties: &[],
        count_max: usize::MAX,
        check: permissions::checked_body,
        check_replaces: |_, _| Ok(()),
    },
    KindRow {
        kind: AccessResourceKind::EncryptionKey,
        record: Kind::EncryptionKey,
        segment: "clientencryptionkeys",
        kind_properties: &[],
        count_max: limits::ENCRYPTION_KEYS_PER_DATABASE,
        check: super::encryption_keys::checked_key,
        check_replaces: super::encryption_keys::check_key_replaces,
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

impl AccessResource {
    pub(super) fn from_record(record: Record) -> Result<AccessResource> {
        let row = KINDS.iter().find(|row| row.record == record.kind);
        Ok(AccessResource {
            kind: row.ok_or_else(Record::damaged)?.kind,
            meta: record.meta,
            created: record.created().ok_or_else(Record::damaged)?,
            body: record.body,
        })
    }

    /// Returns the id of the resource.
    pub fn id(&self) -> &str {
        let id = self.body.get("id").and_then(Json::as_str);
        id.unwrap_or_default()
    }

    /// Returns the resource id of the owner: a database or a user.
    pub fn owner(&self) -> Rid {
        match self.kind {
            AccessResourceKind::User | AccessResourceKind::EncryptionKey => {
                self.meta.rid.database_part()
            }
            AccessResourceKind::Permission => self.meta.rid.user_part(),
        }
    }

    /// Returns the members that the client set.
    pub fn body(&self) -> &Object {
        &self.body
    }

    fn self_link(&self) -> String {
        let rid = self.meta.rid;
        let database = rid.database_part();
        let segment = self.kind.row().segment;
        match self.kind {
            AccessResourceKind::Permission => {
                let user = rid.user_part();
                format!("dbs/{database}/users/{user}/{segment}/{rid}/")
            }
            AccessResourceKind::User | AccessResourceKind::EncryptionKey => {
                format!("dbs/{database}/{segment}/{rid}/")
            }
        }
    }

    /// Returns the content of a permission, or `None` for a resource of another kind.
    pub fn permission_content(&self) -> Option<PermissionContent> {
        match self.kind {
            AccessResourceKind::Permission => PermissionContent::of(self.meta.rid, self.body()),
            AccessResourceKind::User | AccessResourceKind::EncryptionKey => None,
        }
    }

    /// Returns the resource as clients read it, with a token if the resource is a permission.
    pub fn resource(&self, token_signer: TokenSigner<'_>, created: bool) -> Resource {
        let token = self
            .permission_content()
            .map(|content| token_signer.0(&content));
        let mut kind_properties = self.kind.row().kind_properties.to_vec();
        if let Some(token) = &token {
            kind_properties.push(("_token", token));
        }
        let mut body = self.body.clone();
        if self.kind == AccessResourceKind::EncryptionKey {
            // Clients show the second in which a key was made; a new wrapping does not change it.
            body.set("_cts", self.created / MILLISECONDS_PER_SECOND);
        }
        Resource {
            body: self.meta.text(&body, &self.self_link(), &kind_properties),
            etag: self.meta.etag_text(),
            rid: self.meta.rid,
            created,
        }
    }

    fn record(&self) -> Record {
        Record {
            kind: self.kind.row().record,
            meta: self.meta,
            body: self.body.clone(),
            internal: object! { "created" => self.created },
        }
    }

    fn key(&self) -> (AccessResourceKind, Rid, String) {
        (self.kind, self.owner(), self.id().to_owned())
    }
}

impl State {
    /// Loads a stored resource. Its database must be loaded.
    pub(super) fn load_access_resource(&mut self, record: Record) -> Result<()> {
        let resource = AccessResource::from_record(record)?;
        let database = resource.meta.rid.database_part();
        if self.database(database).is_none() {
            return Err(Record::damaged());
        }
        self.access_resources
            .insert(resource.key(), Arc::new(resource));
        Ok(())
    }

    /// Returns the resources of a kind that an owner has, in the order of their ids.
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
    /// Returns the resources of a kind that an owner has, the oldest first.
    pub(crate) fn access_resources(
        &self,
        owner: Rid,
        kind: AccessResourceKind,
    ) -> Vec<Arc<AccessResource>> {
        let state = self.state();
        let mut all: Vec<_> = state.access_resources_of(owner, kind).cloned().collect();
        all.sort_by_key(|resource| (resource.created, resource.meta.rid));
        all
    }

    /// Returns the number of access resources of `owner`.
    pub(crate) fn access_resource_count(&self, owner: Rid, kind: AccessResourceKind) -> usize {
        self.state().access_resources_of(owner, kind).count()
    }

    /// Returns one access resource.
    ///
    /// # Errors
    /// 404 if there is none.
    pub(crate) fn access_resource(
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

    /// Creates an access resource, or replaces the resource of the same id if `upsert`.
    ///
    /// # Errors
    /// 400 for an invalid body, 403 if the owner has the maximum number already, 404/1003 if the
    /// owner is gone, 409 if the id is taken or the user has another permission for the same
    /// resource.
    pub(crate) fn create_access_resource(
        &self,
        owner: Rid,
        kind: AccessResourceKind,
        body: &Object,
        upsert: bool,
        token_signer: TokenSigner<'_>,
    ) -> Result<Resource> {
        let body = (kind.row().check)(body)?;
        let id = resource_id(&body)?;
        let _writing = self.begin_change()?;
        self.check_owner(owner)?;
        let old = self.access_resource(owner, kind, Id::Name(id)).ok();
        if old.is_some() && !upsert {
            return Err(Error::conflict());
        }
        if old.is_none() {
            self.check_count(owner, kind)?;
        }
        self.put_access_resource((owner, kind), old.as_deref(), body, token_signer)
    }

    /// Checks that an owner may have one more resource of a kind.
    fn check_count(&self, owner: Rid, kind: AccessResourceKind) -> Result<()> {
        let KindRow {
            count_max, segment, ..
        } = *kind.row();
        // Counting takes a walk over the resources, which kinds without a limit can do without.
        if count_max == usize::MAX
            || self.state().access_resources_of(owner, kind).count() < count_max
        {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Forbidden,
            format!("A database has at most {count_max} {segment}."),
        ))
    }

    /// Replaces an access resource. The id of a user or permission may change.
    ///
    /// # Errors
    /// 400 for an invalid body, 404, 409 as for a creation, 412.
    pub(crate) fn replace_access_resource(
        &self,
        old: &AccessResource,
        body: &Object,
        if_match: Option<&str>,
        token_signer: TokenSigner<'_>,
    ) -> Result<Resource> {
        let (owner, kind) = (old.owner(), old.kind);
        let body = (kind.row().check)(body)?;
        let _writing = self.begin_change()?;
        // The resource may have changed since it was looked up without the lock.
        let old = self.access_resource(owner, kind, Id::Rid(old.meta.rid))?;
        old.meta.check_if_match(if_match)?;
        let id = resource_id(&body)?;
        if id != old.id() && self.access_resource(owner, kind, Id::Name(id)).is_ok() {
            return Err(Error::conflict());
        }
        self.put_access_resource((owner, kind), Some(&old), body, token_signer)
    }

    /// Deletes an access resource; with a user, the permissions of the user.
    ///
    /// # Errors
    /// 404, 412.
    pub(crate) fn delete_access_resource(
        &self,
        old: &AccessResource,
        if_match: Option<&str>,
    ) -> Result<()> {
        let _writing = self.begin_change()?;
        let old = self.access_resource(old.owner(), old.kind, Id::Rid(old.meta.rid))?;
        old.meta.check_if_match(if_match)?;
        let mut changes = RowChanges::default();
        let deleted = self.delete_access_rows(vec![old], &mut changes);
        self.commit(changes)?;
        self.forget_access_resources(&deleted);
        Ok(())
    }

    /// Adds the deletion of a database's users, their permissions and its keys to `changes`.
    /// Returns the resources that are deleted.
    pub(super) fn delete_access_rows_of_database(
        &self,
        database: Rid,
        changes: &mut RowChanges,
    ) -> Vec<Arc<AccessResource>> {
        let mut resources = self.access_resources(database, AccessResourceKind::User);
        resources.extend(self.access_resources(database, AccessResourceKind::EncryptionKey));
        self.delete_access_rows(resources, changes)
    }

    /// Adds the deletion of resources to `changes`, and of the permissions of users among them.
    fn delete_access_rows(
        &self,
        mut resources: Vec<Arc<AccessResource>>,
        changes: &mut RowChanges,
    ) -> Vec<Arc<AccessResource>> {
        let mut permissions = Vec::new();
        for resource in &resources {
            if resource.kind == AccessResourceKind::User {
                let user = resource.meta.rid;
                permissions.extend(self.access_resources(user, AccessResourceKind::Permission));
            }
        }
        resources.extend(permissions);
        for resource in &resources {
            changes.delete(resource.kind.row().record, resource.meta.rid);
        }
        resources
    }

    /// Removes deleted resources from memory.
    pub(super) fn forget_access_resources(&self, deleted: &[Arc<AccessResource>]) {
        let mut state = write(&self.state);
        for resource in deleted {
            state.access_resources.remove(&resource.key());
        }
    }

    /// Checks that an owner exists. Owners are looked up before the write lock is taken and may
    /// have been deleted since.
    ///
    /// # Errors
    /// 404/1003.
    fn check_owner(&self, owner: Rid) -> Result<()> {
        let exists = if owner.is_user() {
            let database = owner.database_part();
            let user = self.access_resource(database, AccessResourceKind::User, Id::Rid(owner));
            user.is_ok()
        } else {
            self.state().database(owner).is_some()
        };
        if exists {
            Ok(())
        } else {
            Err(Error::owner_not_found())
        }
    }

    /// Returns an unused resource id for a resource of `owner`.
    fn new_access_resource_rid(&self, owner: Rid, kind: AccessResourceKind) -> Rid {
        self.unused_rid(
            |number| match kind {
                AccessResourceKind::User => Rid::user(owner, number as u32),
                AccessResourceKind::Permission => Rid::permission(owner, number),
                AccessResourceKind::EncryptionKey => Rid::encryption_key(owner, number as u32),
            },
            |rid| self.access_resource(owner, kind, Id::Rid(rid)).is_ok(),
        )
    }

    /// Writes a resource, in place of `old` if there is one.
    fn put_access_resource(
        &self,
        (owner, kind): (Rid, AccessResourceKind),
        old: Option<&AccessResource>,
        body: Object,
        token_signer: TokenSigner<'_>,
    ) -> Result<Resource> {
        // A replaced resource keeps its resource id and creation time.
        let (created, rid) = match old {
            Some(old) => {
                (kind.row().check_replaces)(&old.body, &body)?;
                (old.created, old.meta.rid)
            }
            None => (
                self.next_creation_time(owner, kind),
                self.new_access_resource_rid(owner, kind),
            ),
        };
        let resource = AccessResource {
            kind,
            meta: self.new_meta(rid),
            created,
            body,
        };
        self.check_grant_is_unique(&resource)?;

        let mut changes = RowChanges::default();
        changes.put(&resource.record());
        self.commit(changes)?;

        // The old entry has another key if the id changed.
        let answer = resource.resource(token_signer, old.is_none());
        let mut state = write(&self.state);
        if let Some(old) = old {
            state.access_resources.remove(&old.key());
        }
        state
            .access_resources
            .insert(resource.key(), Arc::new(resource));
        Ok(answer)
    }

    /// Returns the current millisecond since 1970, or a later one if the newest resource of the
    /// kind has the same. So creation times give lists a fixed order.
    fn next_creation_time(&self, owner: Rid, kind: AccessResourceKind) -> u64 {
        let state = self.state();
        let newest = state
            .access_resources_of(owner, kind)
            .map(|resource| resource.created)
            .max();
        drop(state);
        let now = self.world.now_ms();
        newest.map_or(now, |newest| now.max(newest + 1))
    }

    /// Checks that a user has no other permission for the same resource and partition key.
    ///
    /// # Errors
    /// 409.
    fn check_grant_is_unique(&self, new: &AccessResource) -> Result<()> {
        let Some(new_content) = new.permission_content() else {
            return Ok(());
        };
        for other in self.state().access_resources_of(new.owner(), new.kind) {
            if other.meta.rid == new.meta.rid {
                continue;
            }
            if other
                .permission_content()
                .is_some_and(|content| content.has_same_target(&new_content))
            {
                return Err(Error::conflict());
            }
        }
        Ok(())
    }
}
