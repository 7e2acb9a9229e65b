//! A partition key for each tenant in one container: the throughput is shared, and a resource token
//! for one partition key keeps the tenants apart.

use crate::order::order;
use orrery_examples::access::Mode;
use orrery_examples::client::{Method, Request};
use orrery_examples::container::{Container, Database, Scope};
use orrery_examples::table::{Table, heading, text};
use orrery_examples::{Result, check};

/// Tenants of the container.
const TENANTS: [&str; 3] = ["northwind", "tailspin", "wingtip"];

/// Shows the container and the rights of one tenant's tokens.
pub(crate) async fn show(database: &Database) -> Result<()> {
    heading("2. A partition key for each tenant");
    let orders = database
        .create_container("orders", "/tenantId", 1_000)
        .await?;
    for tenant in TENANTS {
        orders.create(tenant, &order(tenant, "order-1", 1)).await?;
    }
    let by_tenant = "SELECT c.tenantId, COUNT(1) AS orders FROM c GROUP BY c.tenantId";
    let found = orders.query(Scope::All, by_tenant, &[]).await?;
    check(
        found.rows.len() == TENANTS.len(),
        "a query of the owner sees all tenants of a container",
    )?;

    let [own, other, _] = TENANTS;
    database.create_user(own).await?;
    let all = database.permit(own, "writes", &orders, Some(own), Mode::All);
    let all = orders.seen_by(&database.client.with_resource_token(&all.await?));
    // A user has one permission for a resource and key, so the reader is another user.
    database.create_user("auditor").await?;
    let read = database.permit("auditor", "reads", &orders, Some(own), Mode::Read);
    let reader = orders.seen_by(&database.client.with_resource_token(&read.await?));

    let mut table = Table::new(&["request with a token for the key northwind", "status"]);
    for (shown, request, expected) in requests(&all, &reader, own, other) {
        let response = request.send().await?;
        check(
            response.status == expected,
            &format!("{shown}: {expected}, not {}", response.status),
        )?;
        table.row([shown.to_owned(), response.status.to_string()]);
    }
    table.print();

    database.revoke(own, "writes").await?;
    let revoked = all.doc(Method::GET, "order-1").key(own).send().await?;
    check(
        revoked.status == 401,
        "the deletion of a permission ends its tokens",
    )?;
    text(&format!(
        "The application gives each tenant a token, and the server keeps tenants apart \
         whatever the tenant's program asks. After the deletion of the permission the token \
         is refused ({}). The owner's query over all keys counts the orders of {} tenants.",
        revoked.status,
        found.rows.len()
    ));
    Ok(())
}

/// Returns requests with the token of a tenant, each with its expected status.
fn requests(
    all: &Container,
    reader: &Container,
    own: &str,
    other: &str,
) -> [(&'static str, Request, u16); 9] {
    let create = |container: &Container, key: &str, tenant: &str| {
        let item = order(tenant, "order-2", 1);
        container.docs(Method::POST).key(key).body(&item)
    };
    let read = |key: &str| all.doc(Method::GET, "order-1").key(key);
    let query = |scope: Scope<'_>| all.page(scope, "SELECT * FROM c", &[]);
    [
        ("create an order", create(all, own, own), 201),
        ("read an order", read(own), 200),
        ("query the own key", query(Scope::Key(own)), 200),
        ("read an order of tailspin", read(other), 403),
        (
            "create an order of tailspin",
            create(all, other, other),
            403,
        ),
        ("query the key tailspin", query(Scope::Key(other)), 403),
        ("query all keys", query(Scope::All), 403),
        (
            "create an order of tailspin, own key in the header",
            create(all, own, other),
            400,
        ),
        (
            "create an order, with a token that only reads",
            create(reader, own, own),
            403,
        ),
    ]
}
