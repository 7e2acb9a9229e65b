//! Users, permissions and client encryption keys, as the engine offers them.

use crate::catalog::{Grant, Mint, Plain};
use crate::request::{Id, Outcome, PlainKind, Resource, ScriptKind};
use crate::{Container, Engine};
use orrery_model::{Object, Result, Rid};
use std::sync::Arc;

impl Engine {
    /// A user, permission or key of `owner`, which is a database or user.
    ///
    /// # Errors
    /// 404.
    pub fn plain(&self, owner: Rid, kind: PlainKind, id: Id<'_>) -> Result<Arc<Plain>> {
        self.catalog().plain(owner, kind, id)
    }

    /// Creates one, or replaces the one of its id if `upsert`.
    pub fn create_plain(
        &self,
        owner: Rid,
        kind: PlainKind,
        body: &Object,
        upsert: bool,
        mint: Mint<'_>,
    ) -> Outcome<Resource> {
        self.metadata_resource(
            body,
            self.catalog().create_plain(owner, kind, body, upsert, mint),
        )
    }

    /// Reads one.
    pub fn read_plain(&self, plain: &Plain, mint: Mint<'_>) -> Outcome<Resource> {
        self.metadata_read(Ok(plain.resource(mint, false)))
    }

    /// Replaces one; users and permissions may get another id.
    pub fn replace_plain(
        &self,
        plain: &Plain,
        body: &Object,
        if_match: Option<&str>,
        mint: Mint<'_>,
    ) -> Outcome<Resource> {
        self.metadata_resource(
            body,
            self.catalog().replace_plain(plain, body, if_match, mint),
        )
    }

    /// Deletes one, and a user's permissions with the user.
    pub fn delete_plain(&self, plain: &Plain, if_match: Option<&str>) -> Outcome<()> {
        self.metadata_write(0, self.catalog().delete_plain(plain, if_match))
    }

    /// The resource id of a script; `None` if there is none.
    pub fn script_rid(&self, container: &Container, kind: ScriptKind, id: Id<'_>) -> Option<Rid> {
        self.catalog()
            .find_script(container, kind, id)
            .ok()
            .map(|script| script.meta.rid)
    }

    /// What a permission grants now; `None` if there is no such permission any more.
    pub fn grant(&self, permission: Rid) -> Option<Grant> {
        let plain = self
            .catalog()
            .plain(
                permission.user_part(),
                PlainKind::Permission,
                Id::Rid(permission),
            )
            .ok()?;
        Grant::of(&plain)
    }
}
