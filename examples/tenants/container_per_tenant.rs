//! A container for each tenant: throughput, indexing and deletion of each tenant are its own, and
//! so is the bill.

use crate::order::order;
use orrery_examples::access::Mode;
use orrery_examples::client::Method;
use orrery_examples::container::{Database, Scope};
use orrery_examples::table::{Table, heading, text};
use orrery_examples::{Result, check};

/// Tenants with their throughput in RU/s and number of orders.
const TENANTS: &[(&str, u32, usize)] = &[
    ("adatum", 400, 4),
    ("contoso", 400, 7),
    ("fabrikam", 12_000, 25),
];

/// Shows one container for each tenant.
pub(crate) async fn show(database: &Database) -> Result<()> {
    heading("1. A container for each tenant");
    let mut table = Table::new(&["container", "RU/s", "physical partitions", "orders"]);
    for (tenant, throughput, orders) in TENANTS {
        // The container belongs to one tenant, so its key can spread the orders of the tenant.
        let name = format!("orders-{tenant}");
        let container = database.create_container(&name, "/id", *throughput).await?;
        for number in 0..*orders {
            let id = format!("order-{number}");
            container.create(&id, &order(tenant, &id, 1)).await?;
        }
        let count = container.count(Scope::All).await?;
        check(count == *orders as u64, "a container holds its own items")?;
        let partitions = container.partitions().await?.len();
        table.row([
            name,
            throughput.to_string(),
            partitions.to_string(),
            count.to_string(),
        ]);
    }
    table.print();

    database.create_user("adatum").await?;
    let own = database.container("orders-adatum");
    let token = database.permit("adatum", "orders", &own, None, Mode::All);
    let client = database.client.with_resource_token(&token.await?);
    let read = own.seen_by(&client).read("order-0", "order-0").await?;
    let other = database.container("orders-contoso").seen_by(&client);
    let other = other.doc(Method::GET, "order-0").key("order-0");
    let other = other.send().await?;
    check(
        read.status == 200 && other.status == 403,
        "a token of a container reads this container and no other",
    )?;
    text(&format!(
        "The resource token of adatum reads its own container ({}) and no other ({}). Each \
         tenant has the throughput that it pays for, at least 400 RU/s, and leaves by the \
         deletion of its container. No query asks several containers.",
        read.status, other.status
    ));
    Ok(())
}
