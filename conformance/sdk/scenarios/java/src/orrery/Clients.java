package orrery;

import static orrery.Methods.reach;

import com.azure.cosmos.ConsistencyLevel;
import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.CosmosAsyncDatabase;
import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import java.util.HashMap;
import java.util.Map;

/** The clients in use: the usual ones of the mode, of the server's key, or what `connect` made. */
final class Clients {
  private final String endpoint;
  private final String key;
  /** The usual clients, each of them built for its mode when it is first used. */
  private final Map<String, CosmosClient> usual = new HashMap<>();
  private final Map<String, CosmosAsyncClient> asynchronous = new HashMap<>();
  private String mode = GATEWAY;
  /** What `connect` made, or will make at its first use: building a client asks the server already. */
  private CosmosClient other;
  private CosmosClientBuilder another;

  private static final String GATEWAY = "gateway";
  private static final String DIRECT = "direct";

  Clients(String endpoint, String key) {
    this.endpoint = endpoint;
    this.key = key;
  }

  /** Lets all further clients connect in this mode. */
  void use(String mode) {
    if (!mode.equals(GATEWAY) && !mode.equals(DIRECT)) throw new IllegalArgumentException(mode);
    reset();
    this.mode = mode;
  }

  private CosmosClientBuilder builder() {
    CosmosClientBuilder builder = new CosmosClientBuilder().endpoint(endpoint).contentResponseOnWriteEnabled(true);
    return mode.equals(DIRECT) ? builder.directMode() : builder.gatewayMode();
  }

  /** Puts another client in the place of the usual one, until the scenario ends. */
  Answer connect(Arguments a) {
    CosmosClientBuilder builder = builder();
    // A client with a token knows no key: the token speaks for the one resource.
    if (a.has("token")) builder.resourceToken(a.json("token").path("token").asText());
    else builder.key(a.has("key") ? a.text("key") : key);
    if (a.has("no_response")) builder.contentResponseOnWriteEnabled(!a.flag("no_response"));
    if (a.has("preferred_regions")) builder.preferredRegions(a.texts("preferred_regions"));
    if (a.has("consistency")) builder.consistencyLevel(ConsistencyLevel.valueOf(a.text("consistency").toUpperCase()));
    reset();
    another = builder;
    return Answer.of(200);
  }

  void reset() {
    if (other != null) {
      reach("CosmosClient.close");
      other.close();
    }
    other = null;
    another = null;
  }

  void close() {
    reset();
    usual.values().forEach(CosmosClient::close);
    asynchronous.values().forEach(CosmosAsyncClient::close);
  }

  CosmosClient client() {
    if (another == null) return usual.computeIfAbsent(mode, each -> builder().key(key).buildClient());
    if (other == null) other = another.buildClient();
    return other;
  }

  CosmosDatabase database(Arguments a) {
    reach("CosmosClient.getDatabase");
    String name = a.text("database");
    return client().getDatabase(name);
  }

  CosmosContainer container(Arguments a) {
    reach("CosmosDatabase.getContainer");
    String name = a.text("container");
    return database(a).getContainer(name);
  }

  CosmosAsyncDatabase asynchronousDatabase(Arguments a) {
    CosmosAsyncClient client = asynchronous.computeIfAbsent(mode, each -> builder().key(key).buildAsyncClient());
    return client.getDatabase(a.text("database"));
  }

  CosmosAsyncContainer asynchronousContainer(Arguments a) {
    return asynchronousDatabase(a).getContainer(a.text("container"));
  }
}
