package orrery;

import com.azure.cosmos.models.ChangeFeedPolicy;
import com.azure.cosmos.models.CompositePath;
import com.azure.cosmos.models.CompositePathSortOrder;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosDatabaseProperties;
import com.azure.cosmos.models.ExcludedPath;
import com.azure.cosmos.models.IncludedPath;
import com.azure.cosmos.models.IndexingMode;
import com.azure.cosmos.models.IndexingPolicy;
import com.azure.cosmos.models.PartitionKeyDefinition;
import com.azure.cosmos.models.PartitionKeyDefinitionVersion;
import com.azure.cosmos.models.PartitionKind;
import com.azure.cosmos.models.SpatialSpec;
import com.azure.cosmos.models.SpatialType;
import com.azure.cosmos.models.ThroughputResponse;
import com.azure.cosmos.models.UniqueKey;
import com.azure.cosmos.models.UniqueKeyPolicy;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;

/** The properties of containers and databases: the service's JSON to the SDK's objects, and back. */
final class Properties {
  private Properties() {}

  static CosmosContainerProperties container(JsonNode json) {
    JsonNode key = json.path("partitionKey");
    PartitionKeyDefinition definition = new PartitionKeyDefinition().setPaths(each(key.path("paths"), JsonNode::asText));
    if (key.has("kind")) definition.setKind(key.path("kind").asText().equals("MultiHash") ? PartitionKind.MULTI_HASH : PartitionKind.HASH);
    if (key.has("version")) {
      definition.setVersion(key.path("version").asInt() == 1 ? PartitionKeyDefinitionVersion.V1 : PartitionKeyDefinitionVersion.V2);
    }
    return fill(new CosmosContainerProperties(json.path("id").asText(), definition), json);
  }

  /** What may change of a container, beside its partition key. */
  static CosmosContainerProperties fill(CosmosContainerProperties properties, JsonNode json) {
    if (json.has("defaultTtl")) properties.setDefaultTimeToLiveInSeconds(json.path("defaultTtl").asInt());
    if (json.has("changeFeedPolicy")) {
      Duration kept = Duration.ofMinutes(json.path("changeFeedPolicy").path("retentionDuration").asInt());
      properties.setChangeFeedPolicy(ChangeFeedPolicy.createAllVersionsAndDeletesPolicy(kept));
    }
    if (json.has("indexingPolicy")) properties.setIndexingPolicy(policy(json.path("indexingPolicy")));
    if (json.has("uniqueKeyPolicy")) {
      properties.setUniqueKeyPolicy(new UniqueKeyPolicy().setUniqueKeys(
          each(json.path("uniqueKeyPolicy").path("uniqueKeys"), unique -> new UniqueKey(each(unique.path("paths"), JsonNode::asText)))));
    }
    return properties;
  }

  private static IndexingPolicy policy(JsonNode json) {
    IndexingPolicy policy = new IndexingPolicy().setAutomatic(json.path("automatic").asBoolean(true));
    if (json.has("indexingMode")) policy.setIndexingMode(IndexingMode.valueOf(json.path("indexingMode").asText().toUpperCase(Locale.ROOT)));
    if (json.has("includedPaths")) policy.setIncludedPaths(each(json.path("includedPaths"), path -> new IncludedPath(path.path("path").asText())));
    if (json.has("excludedPaths")) policy.setExcludedPaths(each(json.path("excludedPaths"), path -> new ExcludedPath(path.path("path").asText())));
    if (json.has("compositeIndexes")) {
      policy.setCompositeIndexes(each(json.path("compositeIndexes"), index -> each(index, path -> new CompositePath()
          .setPath(path.path("path").asText())
          .setOrder(CompositePathSortOrder.valueOf(path.path("order").asText().toUpperCase(Locale.ROOT))))));
    }
    if (json.has("spatialIndexes")) {
      policy.setSpatialIndexes(each(json.path("spatialIndexes"), index -> new SpatialSpec()
          .setPath(index.path("path").asText())
          .setSpatialTypes(each(index.path("types"), type -> SpatialType.valueOf(type.asText().toUpperCase(Locale.ROOT))))));
    }
    return policy;
  }

  static ObjectNode json(CosmosContainerProperties properties) {
    ObjectNode json = Main.JSON.createObjectNode().put("id", properties.getId()).put("_rid", properties.getResourceId());
    json.put("_etag", properties.getETag());
    if (properties.getDefaultTimeToLiveInSeconds() != null) json.put("defaultTtl", properties.getDefaultTimeToLiveInSeconds());
    PartitionKeyDefinition key = properties.getPartitionKeyDefinition();
    ObjectNode definition = json.putObject("partitionKey").put("kind", key.getKind().toString());
    definition.set("paths", list(key.getPaths(), Main.JSON.getNodeFactory()::textNode));
    if (key.getVersion() != null) definition.put("version", key.getVersion() == PartitionKeyDefinitionVersion.V1 ? 1 : 2);
    json.set("indexingPolicy", json(properties.getIndexingPolicy()));
    ObjectNode conflicts = json.putObject("conflictResolutionPolicy");
    conflicts.put("mode", properties.getConflictResolutionPolicy().getMode().toString());
    conflicts.put("conflictResolutionPath", properties.getConflictResolutionPolicy().getConflictResolutionPath());
    if (properties.getUniqueKeyPolicy() != null) {
      json.putObject("uniqueKeyPolicy").set("uniqueKeys", list(properties.getUniqueKeyPolicy().getUniqueKeys(),
          unique -> Main.JSON.createObjectNode().set("paths", Main.JSON.valueToTree(unique.getPaths()))));
    }
    return json;
  }

  private static ObjectNode json(IndexingPolicy policy) {
    ObjectNode json = Main.JSON.createObjectNode().put("automatic", policy.isAutomatic());
    json.put("indexingMode", policy.getIndexingMode().toString().toLowerCase(Locale.ROOT));
    json.set("includedPaths", list(policy.getIncludedPaths(), path -> Main.JSON.createObjectNode().put("path", path.getPath())));
    json.set("excludedPaths", list(policy.getExcludedPaths(), path -> Main.JSON.createObjectNode().put("path", path.getPath())));
    json.set("compositeIndexes", list(policy.getCompositeIndexes(), index -> list(index,
        path -> Main.JSON.createObjectNode().put("path", path.getPath()).put("order", path.getOrder().toString()))));
    return json;
  }

  static ObjectNode json(CosmosDatabaseProperties properties) {
    ObjectNode json = Main.JSON.createObjectNode().put("id", properties.getId());
    return json.put("_rid", properties.getResourceId()).put("_etag", properties.getETag());
  }

  /** What the SDK understood of an offer: RU/s, or the most of autoscale. */
  static ObjectNode json(ThroughputResponse response) {
    ObjectNode json = Main.JSON.createObjectNode().put("minimum", response.getMinThroughput());
    Methods.reach("ThroughputProperties.getManualThroughput", "ThroughputProperties.getAutoscaleMaxThroughput");
    Integer manual = response.getProperties().getManualThroughput();
    int most = response.getProperties().getAutoscaleMaxThroughput();
    if (manual != null && manual > 0) json.put("throughput", manual);
    return most > 0 ? json.put("autoscale_max", most) : json;
  }

  static <T> List<T> each(JsonNode values, Function<JsonNode, T> of) {
    List<T> list = new ArrayList<>();
    values.forEach(value -> list.add(of.apply(value)));
    return list;
  }

  private static <T> ArrayNode list(List<T> values, Function<T, JsonNode> of) {
    return Main.list(values.stream().map(of).toList());
  }
}
