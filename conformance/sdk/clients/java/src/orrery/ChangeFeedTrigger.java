package orrery;

import com.azure.cosmos.ChangeFeedProcessor;
import com.azure.cosmos.ChangeFeedProcessorBuilder;
import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.models.ChangeFeedProcessorOptions;
import com.azure.cosmos.models.ChangeFeedProcessorState;
import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/**
 * The change feed processor with leases, as a trigger of Azure Functions runs it, and its estimator of what is left,
 * by which KEDA scales.
 */
public final class ChangeFeedTrigger {
  private final Set<String> seen = ConcurrentHashMap.newKeySet();
  private final Operations program;
  private final CosmosAsyncContainer items;
  private final CosmosAsyncContainer leases;

  private ChangeFeedTrigger(Operations program, CosmosAsyncClient client) {
    this.program = program;
    client.createDatabase(program.database).block();
    var database = client.getDatabase(program.database);
    // As the trigger makes it with `createLeaseContainerIfNotExists`.
    database.createContainerIfNotExists("leases", "/id").block();
    database.createContainerIfNotExists("items", "/pk").block();
    items = database.getContainer("items");
    leases = database.getContainer("leases");
  }

  public static void main(String[] arguments) throws Exception {
    Operations program = new Operations(CosmosAsyncClient.class);
    ServerTrust.begin(Operations.ENDPOINT);
    try (CosmosAsyncClient client = new CosmosClientBuilder()
        .endpoint(Operations.ENDPOINT)
        .key(Operations.KEY)
        .gatewayMode()
        .contentResponseOnWriteEnabled(true)
        .buildAsyncClient()) {
      new ChangeFeedTrigger(program, client).run();
    }
    program.end();
  }

  private void run() {
    program.operation("a host takes the leases and gets the items that were there before it", () -> {
      store(0, 10);
      ChangeFeedProcessor host = host("first");
      host.start().block();
      await(() -> seen.size() == 10, "10 items");
      store(10, 20);
      await(() -> seen.size() == 20, "20 items");
      Operations.equal(leases(), Set.of("first"));
      host.stop().block();
    });
    program.operation("the estimator counts what no host has seen", () -> {
      store(20, 25);
      ChangeFeedProcessor estimator = host("estimator");
      Map<String, Integer> lag = estimator.getEstimatedLag().block();
      Operations.equal(lag.values().stream().mapToInt(Integer::intValue).sum(), 5);
      List<ChangeFeedProcessorState> states = estimator.getCurrentState().block();
      Operations.equal(states.stream().mapToInt(ChangeFeedProcessorState::getEstimatedLag).sum(), 5);
    });
    program.operation("a second host goes on where the first stopped", () -> {
      seen.clear();
      ChangeFeedProcessor host = host("second");
      host.start().block();
      await(() -> seen.size() >= 5, "5 items");
      Operations.equal(seen, Set.of("20", "21", "22", "23", "24"));
      Operations.equal(leases(), Set.of("second"));
      host.stop().block();
    });
  }

  private ChangeFeedProcessor host(String name) {
    ChangeFeedProcessorOptions options = new ChangeFeedProcessorOptions()
        .setLeasePrefix("function")
        .setStartFromBeginning(true)
        .setFeedPollDelay(Duration.ofMillis(50))
        .setLeaseAcquireInterval(Duration.ofMillis(200));
    return new ChangeFeedProcessorBuilder()
        .hostName(name)
        .feedContainer(items)
        .leaseContainer(leases)
        .options(options)
        .handleChanges(changes -> changes.forEach(this::see))
        .buildChangeFeedProcessor();
  }

  private void see(JsonNode change) {
    seen.add(change.get("id").asText());
  }

  private void store(int first, int end) {
    for (int number = first; number < end; number++) {
      items.createItem(Map.of("id", "" + number, "pk", "" + number % 3)).block();
    }
  }

  /** The hosts that own a lease now. */
  private Set<String> leases() {
    String query = "SELECT VALUE c.Owner FROM c WHERE IS_STRING(c.Owner)";
    return Set.copyOf(leases.queryItems(query, String.class).collectList().block());
  }

  private static void await(BooleanSupplier condition, String what) throws InterruptedException {
    long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() > until) throw new AssertionError("waited 60 s for " + what);
      TimeUnit.MILLISECONDS.sleep(20);
    }
  }
}
