package orrery;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.List;
import java.util.Map;
import org.testcontainers.containers.CosmosDBEmulatorContainer;
import org.testcontainers.utility.DockerImageName;

/** The module of Testcontainers for Java as its documentation uses it. */
public final class Module {
  private static final String image = System.getenv("ORRERY_IMAGE");

  private Module() {}

  public static void main(String[] arguments) throws Exception {
    Operations program = new Operations(CosmosDBEmulatorContainer.class);
    // snippet: java
    CosmosDBEmulatorContainer emulator = new CosmosDBEmulatorContainer(DockerImageName.parse(image)
        .asCompatibleSubstituteFor("mcr.microsoft.com/cosmosdb/linux/azure-cosmos-emulator"));
    // end
    program.operation("the container starts, and its wait strategy is satisfied", emulator::start);
    // Java reads its trust store once, so one container serves every operation.
    program.operation("the module's key store has the server's certificate", () -> {
      Operations.equal(emulator.buildNewKeyStore().size(), 1);
      trust(emulator);
    });
    program.operation("the client with the module's options writes, reads and queries", () -> {
      try (CosmosClient client = client(emulator)) {
        stores(client);
        queries(client);
      }
    });
    program.operation("a client that discovers endpoints finds the published port", () -> {
      String endpoint = emulator.getEmulatorEndpoint();
      String key = emulator.getEmulatorKey();
      try (CosmosClient client = new CosmosClientBuilder().gatewayMode().endpoint(endpoint).key(key).buildClient()) {
        queries(client);
      }
    });
    program.operation("the container stops", emulator::stop);
    program.end();
  }

  private static void trust(CosmosDBEmulatorContainer emulator) throws Exception {
    // snippet: java
    KeyStore store = emulator.buildNewKeyStore();
    Path file = Files.createTempFile("emulator", ".p12");
    try (OutputStream out = Files.newOutputStream(file)) {
      store.store(out, emulator.getEmulatorKey().toCharArray());
    }
    System.setProperty("javax.net.ssl.trustStore", file.toString());
    System.setProperty("javax.net.ssl.trustStorePassword", emulator.getEmulatorKey());
    System.setProperty("javax.net.ssl.trustStoreType", "PKCS12");
    // end
    file.toFile().deleteOnExit();
  }

  private static CosmosClient client(CosmosDBEmulatorContainer emulator) {
    // snippet: java
    CosmosClient client = new CosmosClientBuilder()
        .gatewayMode()
        .endpointDiscoveryEnabled(false)
        .endpoint(emulator.getEmulatorEndpoint())
        .key(emulator.getEmulatorKey())
        .buildClient();
    // end
    return client;
  }

  private static void stores(CosmosClient client) {
    // snippet: java
    client.createDatabaseIfNotExists("shop");
    client.getDatabase("shop").createContainerIfNotExists("items", "/pk");
    CosmosContainer items = client.getDatabase("shop").getContainer("items");
    items.createItem(Map.of("id", "1", "pk", "a", "name", "first"));
    Map<?, ?> item = items.readItem("1", new PartitionKey("a"), Map.class).getItem();
    // end
    Operations.equal(item.get("name"), "first");
  }

  private static void queries(CosmosClient client) {
    CosmosContainer items = client.getDatabase("shop").getContainer("items");
    List<String> found = items
        .queryItems("SELECT VALUE c.name FROM c", new CosmosQueryRequestOptions(), String.class)
        .stream()
        .toList();
    Operations.equal(found, List.of("first"));
  }
}
