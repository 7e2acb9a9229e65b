from azure.cosmos import CosmosClient, PartitionKey

KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

client = CosmosClient("http://127.0.0.1:8081", KEY)
blog = client.create_database_if_not_exists("blog")
posts = blog.create_container_if_not_exists("posts", PartitionKey(path="/postId"))
posts.upsert_item({"id": "1", "postId": "p1", "title": "Hello from Python"})
post = posts.read_item("1", partition_key="p1")
print(post["title"], post.get_response_headers()["x-ms-request-charge"], "RU")
