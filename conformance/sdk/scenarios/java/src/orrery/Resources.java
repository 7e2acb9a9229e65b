package orrery;

import static orrery.Methods.reach;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosContainerRequestOptions;
import com.azure.cosmos.models.CosmosContainerResponse;
import com.azure.cosmos.models.CosmosDatabaseProperties;
import com.azure.cosmos.models.CosmosDatabaseRequestOptions;
import com.azure.cosmos.models.CosmosDatabaseResponse;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.ThroughputResponse;
import java.util.Map;

/** Databases, containers and their throughput. */
final class Resources {
  private final Clients clients;

  Resources(Clients clients) {
    this.clients = clients;
  }

  void register(Map<String, Main.Operation> operations) {
    operations.put("connect", clients::connect);
    operations.put("create_database", this::createDatabase);
    operations.put("create_database_if_not_exists", this::createDatabaseIfNotExists);
    operations.put("read_database", this::readDatabase);
    operations.put("delete_database", this::deleteDatabase);
    operations.put("list_databases", this::listDatabases);
    operations.put("query_databases", this::queryDatabases);
    operations.put("create_container", this::createContainer);
    operations.put("create_container_if_not_exists", this::createContainerIfNotExists);
    operations.put("read_container", this::readContainer);
    operations.put("replace_container", this::replaceContainer);
    operations.put("delete_container", this::deleteContainer);
    operations.put("list_containers", this::listContainers);
    operations.put("query_containers", this::queryContainers);
    operations.put("read_database_throughput", this::readDatabaseThroughput);
    operations.put("replace_database_throughput", this::replaceDatabaseThroughput);
    operations.put("read_container_throughput", this::readContainerThroughput);
    operations.put("replace_container_throughput", this::replaceContainerThroughput);
  }

  private Answer createDatabase(Arguments a) {
    reach("CosmosClient.createDatabase");
    CosmosDatabaseProperties properties = new CosmosDatabaseProperties(a.text("database"));
    return answer(clients.client().createDatabase(properties, a.throughput(), new CosmosDatabaseRequestOptions()));
  }

  private Answer createDatabaseIfNotExists(Arguments a) {
    reach("CosmosClient.createDatabaseIfNotExists");
    return answer(clients.client().createDatabaseIfNotExists(a.text("database"), a.throughput()));
  }

  private Answer readDatabase(Arguments a) {
    reach("CosmosDatabase.read");
    return answer(clients.database(a).read(databaseOptions(a)));
  }

  private Answer deleteDatabase(Arguments a) {
    reach("CosmosDatabase.delete");
    return answer(clients.database(a).delete(databaseOptions(a)));
  }

  private static CosmosDatabaseRequestOptions databaseOptions(Arguments a) {
    return new CosmosDatabaseRequestOptions()
        .setIfMatchETag(a.text("if_match")).setIfNoneMatchETag(a.text("if_none_match"));
  }

  private Answer listDatabases(Arguments a) {
    reach("CosmosClient.readAllDatabases");
    return Feeds.pages(clients.client().readAllDatabases(), a, Properties::json);
  }

  private Answer queryDatabases(Arguments a) {
    reach("CosmosClient.queryDatabases");
    return Feeds.pages(clients.client().queryDatabases(a.query(), new CosmosQueryRequestOptions()), a, Properties::json);
  }

  private Answer createContainer(Arguments a) {
    reach("CosmosDatabase.createContainer");
    return answer(clients.database(a).createContainer(
        Properties.container(a.json("properties")), a.throughput(), new CosmosContainerRequestOptions()));
  }

  private Answer createContainerIfNotExists(Arguments a) {
    reach("CosmosDatabase.createContainerIfNotExists");
    return answer(clients.database(a).createContainerIfNotExists(Properties.container(a.json("properties")), a.throughput()));
  }

  private Answer readContainer(Arguments a) {
    reach("CosmosContainer.read");
    return answer(clients.container(a).read(new CosmosContainerRequestOptions().setQuotaInfoEnabled(a.flag("quota"))));
  }

  private Answer replaceContainer(Arguments a) {
    reach("CosmosContainer.replace");
    CosmosContainerRequestOptions options = new CosmosContainerRequestOptions().setIfMatchETag(a.text("if_match"));
    CosmosContainer container = clients.container(a);
    // The SDK replaces only what it has read: it goes by the self link.
    CosmosContainerProperties properties = Properties.fill(container.read().getProperties(), a.json("properties"));
    properties.setPartitionKeyDefinition(Properties.container(a.json("properties")).getPartitionKeyDefinition());
    return answer(container.replace(properties, options));
  }

  private Answer deleteContainer(Arguments a) {
    reach("CosmosContainer.delete");
    return answer(clients.container(a).delete(new CosmosContainerRequestOptions().setIfMatchETag(a.text("if_match"))));
  }

  private Answer listContainers(Arguments a) {
    reach("CosmosDatabase.readAllContainers");
    return Feeds.pages(clients.database(a).readAllContainers(), a, Properties::json);
  }

  private Answer queryContainers(Arguments a) {
    reach("CosmosDatabase.queryContainers");
    return Feeds.pages(clients.database(a).queryContainers(a.query(), new CosmosQueryRequestOptions()), a, Properties::json);
  }

  private Answer readDatabaseThroughput(Arguments a) {
    reach("CosmosDatabase.readThroughput");
    return answer(clients.database(a).readThroughput());
  }

  private Answer replaceDatabaseThroughput(Arguments a) {
    reach("CosmosDatabase.replaceThroughput");
    return answer(clients.database(a).replaceThroughput(a.throughput()));
  }

  private Answer readContainerThroughput(Arguments a) {
    reach("CosmosContainer.readThroughput");
    return answer(clients.container(a).readThroughput());
  }

  private Answer replaceContainerThroughput(Arguments a) {
    reach("CosmosContainer.replaceThroughput");
    return answer(clients.container(a).replaceThroughput(a.throughput()));
  }

  private static Answer answer(CosmosDatabaseResponse response) {
    Answer answer = Answer.of(response);
    return response.getProperties() == null ? answer : answer.body(Properties.json(response.getProperties()));
  }

  private static Answer answer(CosmosContainerResponse response) {
    Answer answer = Answer.of(response);
    return response.getProperties() == null ? answer : answer.body(Properties.json(response.getProperties()));
  }

  private static Answer answer(ThroughputResponse response) {
    return Answer.of(response).body(Properties.json(response));
  }
}
