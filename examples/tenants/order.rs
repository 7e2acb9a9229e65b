//! The item of the example: an order of a tenant.

use serde_json::{Value, json};

/// Returns the version `version` of an order.
pub(crate) fn order(tenant: &str, id: &str, version: usize) -> Value {
    json!({
        "id": id,
        "tenantId": tenant,
        "type": "order",
        "version": version,
        "lines": [
            {"article": "orrery, brass", "quantity": 1},
            {"article": "spare planet", "quantity": version % 3 + 1},
        ],
    })
}
