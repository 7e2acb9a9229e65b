package orrery;

import static orrery.Methods.reach;

import com.azure.cosmos.ConsistencyLevel;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosBatchItemRequestOptions;
import com.azure.cosmos.models.CosmosBatchOperationResult;
import com.azure.cosmos.models.CosmosBatchPatchItemRequestOptions;
import com.azure.cosmos.models.CosmosBatchRequestOptions;
import com.azure.cosmos.models.CosmosBatchResponse;
import com.azure.cosmos.models.CosmosBulkOperationResponse;
import com.azure.cosmos.models.CosmosBulkOperations;
import com.azure.cosmos.models.CosmosItemIdentity;
import com.azure.cosmos.models.CosmosItemOperation;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosPatchItemRequestOptions;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.CosmosReadManyRequestOptions;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.IndexingDirective;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Items, alone and several at once. */
final class Items {
  private final Clients clients;

  Items(Clients clients) {
    this.clients = clients;
  }

  void register(Map<String, Main.Operation> operations) {
    operations.put("create_item", this::create);
    operations.put("read_item", this::read);
    operations.put("upsert_item", this::upsert);
    operations.put("replace_item", this::replace);
    operations.put("delete_item", this::delete);
    operations.put("patch_item", this::patch);
    operations.put("read_many_items", this::readMany);
    operations.put("read_partition_keys", this::readPartitionKeys);
    operations.put("delete_all_items", this::deleteAll);
    operations.put("batch", this::batch);
    operations.put("bulk", this::bulk);
  }

  private static <T extends CosmosItemRequestOptions> T options(Arguments a, T options) {
    options.setIfMatchETag(a.text("if_match")).setIfNoneMatchETag(a.text("if_none_match"));
    options.setSessionToken(a.text("session_token"));
    if (a.has("pre_triggers")) options.setPreTriggerInclude(a.texts("pre_triggers"));
    if (a.has("post_triggers")) options.setPostTriggerInclude(a.texts("post_triggers"));
    if (a.has("indexing")) options.setIndexingDirective(IndexingDirective.valueOf(a.text("indexing").toUpperCase(Locale.ROOT)));
    if (a.has("consistency")) options.setConsistencyLevel(ConsistencyLevel.valueOf(a.text("consistency").toUpperCase(Locale.ROOT)));
    if (a.has("no_response")) options.setContentResponseOnWriteEnabled(!a.flag("no_response"));
    return options;
  }

  private static CosmosItemRequestOptions options(Arguments a) {
    return options(a, new CosmosItemRequestOptions());
  }

  private Answer create(Arguments a) {
    reach("CosmosContainer.createItem");
    return Answer.of(clients.container(a).createItem(a.json("item"), a.partitionKey(), options(a)));
  }

  private Answer read(Arguments a) {
    reach("CosmosContainer.readItem");
    return Answer.of(clients.container(a).readItem(a.text("id"), a.partitionKey(), options(a), JsonNode.class));
  }

  private Answer upsert(Arguments a) {
    reach("CosmosContainer.upsertItem");
    return Answer.of(clients.container(a).upsertItem(a.json("item"), a.partitionKey(), options(a)));
  }

  private Answer replace(Arguments a) {
    reach("CosmosContainer.replaceItem");
    return Answer.of(clients.container(a).replaceItem(a.json("item"), a.text("id"), a.partitionKey(), options(a)));
  }

  private Answer delete(Arguments a) {
    reach("CosmosContainer.deleteItem");
    return Answer.of(clients.container(a).deleteItem(a.text("id"), a.partitionKey(), options(a)));
  }

  private Answer patch(Arguments a) {
    reach("CosmosContainer.patchItem");
    CosmosPatchItemRequestOptions options = options(a, new CosmosPatchItemRequestOptions());
    options.setFilterPredicate(a.text("condition"));
    return Answer.of(clients.container(a).patchItem(
        a.text("id"), a.partitionKey(), patchOf(a.json("operations")), options, JsonNode.class));
  }

  /** The operations of a patch: `{op, path, value}` each, as on the wire. */
  private static CosmosPatchOperations patchOf(JsonNode steps) {
    reach("CosmosPatchOperations.create");
    CosmosPatchOperations patch = CosmosPatchOperations.create();
    for (JsonNode step : steps) {
      String path = step.path("path").asText();
      JsonNode value = step.path("value");
      switch (step.path("op").asText()) {
        case "add" -> {
          reach("CosmosPatchOperations.add");
          patch.add(path, value);
        }
        case "set" -> {
          reach("CosmosPatchOperations.set");
          patch.set(path, value);
        }
        case "replace" -> {
          reach("CosmosPatchOperations.replace");
          patch.replace(path, value);
        }
        case "remove" -> {
          reach("CosmosPatchOperations.remove");
          patch.remove(path);
        }
        case "move" -> {
          reach("CosmosPatchOperations.move");
          patch.move(step.path("from").asText(), path);
        }
        case "incr" -> {
          reach("CosmosPatchOperations.increment");
          if (value.isIntegralNumber()) patch.increment(path, value.asLong());
          else patch.increment(path, value.asDouble());
        }
        default -> throw new Main.Missing("the patch operation " + step.path("op").asText());
      }
    }
    return patch;
  }

  private Answer readMany(Arguments a) {
    reach("CosmosContainer.readMany");
    List<CosmosItemIdentity> identities = Properties.each(a.json("identities"),
        identity -> new CosmosItemIdentity(Arguments.key(identity.path("partition_key")), identity.path("id").asText()));
    CosmosReadManyRequestOptions options = new CosmosReadManyRequestOptions().setSessionToken(a.text("session_token"));
    FeedResponse<JsonNode> found = clients.container(a).readMany(identities, options, JsonNode.class);
    return Answer.of(List.of(found), a, item -> item, false);
  }

  private Answer readPartitionKeys(Arguments a) {
    reach("CosmosContainer.readManyByPartitionKeys");
    List<PartitionKey> keys = Properties.each(a.json("partition_keys"), Arguments::key);
    return Feeds.pages(clients.container(a).readManyByPartitionKeys(keys, JsonNode.class), a, item -> item);
  }

  private Answer deleteAll(Arguments a) {
    reach("CosmosContainer.deleteAllItemsByPartitionKey");
    return Answer.of(clients.container(a).deleteAllItemsByPartitionKey(a.partitionKey(), options(a)));
  }

  private Answer batch(Arguments a) {
    reach("CosmosContainer.executeCosmosBatch", "CosmosBatch.createCosmosBatch");
    CosmosContainer container = clients.container(a);
    CosmosBatch batch = CosmosBatch.createCosmosBatch(a.partitionKey());
    for (JsonNode step : a.json("operations")) add(batch, step);
    CosmosBatchResponse done = container.executeCosmosBatch(batch, new CosmosBatchRequestOptions());
    ArrayNode results = Main.JSON.createArrayNode();
    for (CosmosBatchOperationResult result : done.getResults()) {
      ObjectNode one = results.addObject().put("status", result.getStatusCode()).put("etag", result.getETag());
      one.put("charge", result.getRequestCharge());
      JsonNode item = result.getItem(JsonNode.class);
      if (item != null) one.set("body", item);
    }
    // Of a batch that was answered with 207 the SDK gives the status of the first refusal as the whole answer's.
    return Answer.of(done.isSuccessStatusCode() ? done.getStatusCode() : 207).with("results", results)
        .with("headers", Main.JSON.valueToTree(done.getResponseHeaders()));
  }

  private static void add(CosmosBatch batch, JsonNode step) {
    CosmosBatchItemRequestOptions options = new CosmosBatchItemRequestOptions();
    if (step.has("if_match")) options.setIfMatchETag(step.path("if_match").asText());
    String id = step.path("id").asText();
    switch (step.path("op").asText()) {
      case "create" -> {
        reach("CosmosBatch.createItemOperation");
        batch.createItemOperation(step.path("item"), options);
      }
      case "upsert" -> {
        reach("CosmosBatch.upsertItemOperation");
        batch.upsertItemOperation(step.path("item"), options);
      }
      case "replace" -> {
        reach("CosmosBatch.replaceItemOperation");
        batch.replaceItemOperation(id, step.path("item"), options);
      }
      case "read" -> {
        reach("CosmosBatch.readItemOperation");
        batch.readItemOperation(id, options);
      }
      case "delete" -> {
        reach("CosmosBatch.deleteItemOperation");
        batch.deleteItemOperation(id, options);
      }
      default -> {
        reach("CosmosBatch.patchItemOperation");
        CosmosBatchPatchItemRequestOptions patching = new CosmosBatchPatchItemRequestOptions();
        if (step.has("condition")) patching.setFilterPredicate(step.path("condition").asText());
        batch.patchItemOperation(id, patchOf(step.path("operations")), patching);
      }
    }
  }

  private Answer bulk(Arguments a) {
    reach("CosmosContainer.executeBulkOperations");
    List<CosmosItemOperation> steps = new ArrayList<>();
    for (JsonNode step : a.json("operations")) steps.add(operation(step, steps.size()));
    ObjectNode[] inOrder = new ObjectNode[steps.size()];
    Iterable<CosmosBulkOperationResponse<Integer>> responses = clients.container(a).executeBulkOperations(steps);
    for (CosmosBulkOperationResponse<Integer> done : responses) {
      ObjectNode one = Main.JSON.createObjectNode();
      inOrder[(Integer) done.getOperation().getContext()] = one;
      if (done.getException() != null) throw new IllegalStateException(done.getException());
      one.put("status", done.getResponse().getStatusCode()).put("etag", done.getResponse().getETag());
      JsonNode item = done.getResponse().getItem(JsonNode.class);
      if (item != null) one.set("body", item);
    }
    return Answer.of(200).with("results", Main.list(List.of(inOrder)));
  }

  private static CosmosItemOperation operation(JsonNode step, int place) {
    PartitionKey key = Arguments.key(step.path("partition_key"));
    String id = step.path("id").asText();
    JsonNode item = step.path("item");
    switch (step.path("op").asText()) {
      case "create":
        reach("CosmosBulkOperations.getCreateItemOperation");
        return CosmosBulkOperations.getCreateItemOperation(item, key, (Integer) place);
      case "upsert":
        reach("CosmosBulkOperations.getUpsertItemOperation");
        return CosmosBulkOperations.getUpsertItemOperation(item, key, (Integer) place);
      case "replace":
        reach("CosmosBulkOperations.getReplaceItemOperation");
        return CosmosBulkOperations.getReplaceItemOperation(id, item, key, (Integer) place);
      case "read":
        reach("CosmosBulkOperations.getReadItemOperation");
        return CosmosBulkOperations.getReadItemOperation(id, key, (Integer) place);
      case "delete":
        reach("CosmosBulkOperations.getDeleteItemOperation");
        return CosmosBulkOperations.getDeleteItemOperation(id, key, (Integer) place);
      default:
        reach("CosmosBulkOperations.getPatchItemOperation");
        return CosmosBulkOperations.getPatchItemOperation(id, key, patchOf(step.path("operations")), (Integer) place);
    }
  }
}
