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

/** The clients in use: the usual ones, of the server's key, or what `connect` made. */
final class Clients {
  private final String endpoint;
  private final String key;
  private final CosmosClient usual;
  /** What `connect` made, or will make at its first use: building a client asks the server already. */
  private CosmosClient other;
  private CosmosClientBuilder another;
  private CosmosAsyncClient asynchronous;

  Clients(String endpoint, String key) {
    this.endpoint = endpoint;
    this.key = key;
    this.usual = builder(key).buildClient();
  }

  private CosmosClientBuilder builder(String key) {
    return new CosmosClientBuilder().endpoint(endpoint).key(key).gatewayMode().contentResponseOnWriteEnabled(true);
  }

  /** Puts another client in the place of the usual one, until the scenario ends. */
  Answer connect(Arguments a) {
    CosmosClientBuilder builder = builder(a.has("key") ? a.text("key") : key);
    if (a.has("token")) {
      // A client that knows no key: the token speaks for the one resource.
      builder = new CosmosClientBuilder().endpoint(endpoint).gatewayMode().contentResponseOnWriteEnabled(true)
          .resourceToken(a.json("token").path("token").asText());
    }
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
    usual.close();
    if (asynchronous != null) asynchronous.close();
  }

  CosmosClient client() {
    if (another == null) return usual;
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
    if (asynchronous == null) asynchronous = builder(key).buildAsyncClient();
    return asynchronous.getDatabase(a.text("database"));
  }

  CosmosAsyncContainer asynchronousContainer(Arguments a) {
    return asynchronousDatabase(a).getContainer(a.text("container"));
  }
}
