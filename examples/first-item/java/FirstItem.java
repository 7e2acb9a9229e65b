import com.azure.cosmos.*;
import com.azure.cosmos.models.PartitionKey;
import java.util.Map;

public class FirstItem {
  static final String KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

  public static void main(String[] arguments) {
    // The SDK speaks TLS even to an http address unless this property allows plain HTTP.
    System.setProperty("COSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED", "true");
    try (CosmosClient client = new CosmosClientBuilder()
        .endpoint("http://127.0.0.1:8081").key(KEY).gatewayMode().buildClient()) {
      client.createDatabaseIfNotExists("blog");
      CosmosDatabase blog = client.getDatabase("blog");
      blog.createContainerIfNotExists("posts", "/postId");
      CosmosContainer posts = blog.getContainer("posts");
      posts.upsertItem(Map.of("id", "1", "postId", "p1", "title", "Hello from Java"));
      var post = posts.readItem("1", new PartitionKey("p1"), Map.class);
      System.out.println(post.getItem().get("title") + " " + post.getRequestCharge() + " RU");
    }
  }
}
