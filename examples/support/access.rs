//! Users and permissions: a permission gives its user a resource token, which a program uses in
//! place of the master key.

use crate::Result;
use crate::client::{Method, request};
use crate::container::{Container, Database};
use serde_json::json;

/// The operations that a permission allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Reads and queries.
    Read,
    /// Reads, queries and writes.
    All,
}

impl Database {
    /// Creates a user.
    pub async fn create_user(&self, user: &str) -> Result<()> {
        let path = format!("{}/users", self.link);
        let request = request(&self.client, Method::POST, path);
        let request = request.body(&json!({"id": user}));
        request.send().await?.expect(201).map(drop)
    }

    /// Creates a permission for a container, or for one logical partition if `key` is given, and
    /// returns its resource token.
    pub async fn permit(
        &self,
        user: &str,
        permission: &str,
        container: &Container,
        key: Option<&str>,
        mode: Mode,
    ) -> Result<String> {
        let mut body = json!({
            "id": permission,
            "permissionMode": if mode == Mode::All { "All" } else { "Read" },
            "resource": container.link,
        });
        if let Some(key) = key {
            body["resourcePartitionKey"] = json!([key]);
        }
        let path = format!("{}/users/{user}/permissions", self.link);
        let request = request(&self.client, Method::POST, path);
        let response = request.body(&body).send().await?.expect(201)?;
        let token = response.body["_token"].as_str();
        Ok(token.ok_or("a permission without token")?.to_owned())
    }

    /// Deletes a permission, which ends its tokens.
    pub async fn revoke(&self, user: &str, permission: &str) -> Result<()> {
        let link = format!("{}/users/{user}/permissions/{permission}", self.link);
        Ok(self.client.delete(&link).await.map(drop)?)
    }
}
