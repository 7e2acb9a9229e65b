package orrery;

import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.azure.cosmos.models.SqlParameter;
import com.azure.cosmos.models.SqlQuerySpec;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;

/** The arguments of one operation. An argument that no code asks for is one that the SDK has no option for. */
final class Arguments {
  private final ObjectNode given;
  private final TreeSet<String> unused = new TreeSet<>();

  Arguments(ObjectNode given) {
    this.given = given;
    given.fieldNames().forEachRemaining(unused::add);
  }

  String unused() {
    return String.join(", ", unused);
  }

  boolean has(String name) {
    return given.has(name);
  }

  /** The argument, or null. */
  JsonNode json(String name) {
    unused.remove(name);
    return given.get(name);
  }

  String text(String name) {
    JsonNode value = json(name);
    return value == null ? null : value.asText();
  }

  Integer integer(String name) {
    JsonNode value = json(name);
    return value == null ? null : value.asInt();
  }

  boolean flag(String name) {
    JsonNode value = json(name);
    return value != null && value.asBoolean();
  }

  /** A list of texts, or null. */
  List<String> texts(String name) {
    JsonNode value = json(name);
    if (value == null) return null;
    List<String> texts = new ArrayList<>();
    value.forEach(text -> texts.add(text.asText()));
    return texts;
  }

  /** The argument `partition_key`, or null. */
  PartitionKey partitionKey() {
    JsonNode values = json("partition_key");
    return values == null ? null : key(values);
  }

  /** A partition key written as a JSON array. */
  static PartitionKey key(JsonNode values) {
    if (values.isEmpty()) return PartitionKey.NONE;
    if (values.size() == 1 && !values.get(0).isNull()) return new PartitionKey(plain(values.get(0)));
    PartitionKeyBuilder builder = new PartitionKeyBuilder();
    for (JsonNode value : values) {
      if (value.isNull()) builder.addNullValue();
      else if (value.isBoolean()) builder.add(value.asBoolean());
      else if (value.isNumber()) builder.add(value.asDouble());
      else builder.add(value.asText());
    }
    return builder.build();
  }

  /** A JSON value as the SDK takes values: plain objects of Java. */
  static Object plain(JsonNode value) {
    if (value == null || value.isNull()) return null;
    if (value.isBoolean()) return value.asBoolean();
    if (value.isNumber()) return value.numberValue();
    return value.isTextual() ? value.asText() : value;
  }

  /** The query with its parameters. */
  SqlQuerySpec query() {
    List<SqlParameter> parameters = new ArrayList<>();
    JsonNode named = json("parameters");
    if (named != null) named.forEach(p -> parameters.add(new SqlParameter(p.path("name").asText(), plain(p.get("value")))));
    return new SqlQuerySpec(text("query"), parameters);
  }

  /** What a new container or database, or an offer, shall have; null if nothing is said. */
  ThroughputProperties throughput() {
    Integer manual = integer("throughput");
    JsonNode autoscale = json("autoscale");
    if (manual != null) {
      Methods.reach("ThroughputProperties.createManualThroughput");
      return ThroughputProperties.createManualThroughput(manual);
    }
    if (autoscale == null) return null;
    if (autoscale.has("increment")) throw new Main.Missing("an increment of autoscale");
    Methods.reach("ThroughputProperties.createAutoscaledThroughput");
    return ThroughputProperties.createAutoscaledThroughput(autoscale.path("max").asInt());
  }
}
