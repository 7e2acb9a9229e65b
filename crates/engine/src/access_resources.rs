//! Users, permissions and client encryption keys, as the engine offers them.

use crate::catalog::{AccessResource, Grant, TokenSigner};
use crate::request::{AccessResourceKind, Id, Outcome, Resource, ScriptKind};
use crate::{Container, Engine};
use orrery_model::{Object, Result, Rid};
use std::sync::Arc;

impl Engine {
    /// A user, permission or key of `owner`, which is a database or user.
    ///
    /// # Errors
    /// 404.
    pub fn access_resource(
        &self,
        owner: Rid,
        kind: AccessResourceKind,
        id: Id<'_>,
    ) -> Result<Arc<AccessResource>> {
        self.catalog().access_resource(owner, kind, id)
    }

    /// Creates one, or replaces the one of its id if `upsert`.
    pub fn create_access_resource(
        &self,
        owner: Rid,
        kind: AccessResourceKind,
        body: &Object,
        upsert: bool,
        token_signer: TokenSigner<'_>,
    ) -> Outcome<Resource> {
        self.metadata_resource(
            body,
            self.catalog()
                .create_access_resource(owner, kind, body, upsert, token_signer),
        )
    }

    /// Reads one.
    pub fn read_access_resource(
        &self,
        resource: &AccessResource,
        token_signer: TokenSigner<'_>,
    ) -> Outcome<Resource> {
        self.metadata_read(Ok(resource.resource(token_signer, false)))
    }

    /// Replaces one; users and permissions may get another id.
    pub fn replace_access_resource(
        &self,
        resource: &AccessResource,
        body: &Object,
        if_match: Option<&str>,
        token_signer: TokenSigner<'_>,
    ) -> Outcome<Resource> {
        self.metadata_resource(
            body,
            self.catalog()
                .replace_access_resource(resource, body, if_match, token_signer),
        )
    }

    /// Deletes one, and a user's permissions with the user.
    pub fn delete_access_resource(
        &self,
        resource: &AccessResource,
        if_match: Option<&str>,
    ) -> Outcome<()> {
        self.metadata_write(0, self.catalog().delete_access_resource(resource, if_match))
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
        let resource = self
            .catalog()
            .access_resource(
                permission.user_part(),
                AccessResourceKind::Permission,
                Id::Rid(permission),
            )
            .ok()?;
        Grant::of(&resource)
    }
}
