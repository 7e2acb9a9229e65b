use azure_data_cosmos::models::ContainerProperties;
use azure_data_cosmos::{AccountReference, CosmosClient, RoutingStrategy};
use serde_json::{Value, json};

const KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = "http://127.0.0.1:8081".parse()?;
    let account = AccountReference::with_authentication_key(endpoint, KEY);
    let client = CosmosClient::builder()
        .build(account, RoutingStrategy::PreferredRegions(Vec::new()))
        .await?;

    // The second run finds both there: a conflict, which is no reason to stop.
    let _ = client.create_database("blog", None).await;
    let blog = client.database_client("blog");
    let _ = blog.create_container(ContainerProperties::new("posts", "/postId".into()), None).await;

    let posts = blog.container_client("posts", None).await?;
    let post = json!({"id": "1", "postId": "p1", "title": "Hello from Rust"});
    posts.upsert_item("p1", "1", post, None).await?;
    let read: Value = posts.read_item("p1", "1", None).await?.into_model()?;
    println!("{}", read["title"]);
    Ok(())
}
