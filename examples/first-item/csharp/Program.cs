using Microsoft.Azure.Cosmos;

const string key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

using var client = new CosmosClient("http://127.0.0.1:8081", key, new CosmosClientOptions
{
    ConnectionMode = ConnectionMode.Gateway,
});
Database blog = await client.CreateDatabaseIfNotExistsAsync("blog");
Container posts = await blog.CreateContainerIfNotExistsAsync("posts", "/postId");
await posts.UpsertItemAsync(new { id = "1", postId = "p1", title = "Hello from C#" }, new PartitionKey("p1"));
var post = await posts.ReadItemAsync<Dictionary<string, object>>("1", new PartitionKey("p1"));
Console.WriteLine($"{post.Resource["title"]} {post.RequestCharge} RU");
