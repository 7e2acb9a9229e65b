package orrery;

import static orrery.Methods.reach;

import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.util.CosmosPagedFlux;
import com.azure.cosmos.util.CosmosPagedIterable;
import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import java.util.Map;
import java.util.function.Function;

/** Everything that comes in pages: lists, queries, the change feed. */
final class Feeds {
  private final Clients clients;

  Feeds(Clients clients) {
    this.clients = clients;
  }

  void register(Map<String, Main.Operation> operations) {
    operations.put("list_items", this::listItems);
    operations.put("query_items", this::queryItems);
    operations.put("read_feed_ranges", this::readFeedRanges);
    operations.put("feed_range_of_partition_key", this::feedRangeOfPartitionKey);
    operations.put("change_feed", this::changeFeed);
    operations.put("list_conflicts", this::listConflicts);
    operations.put("query_conflicts", this::queryConflicts);
  }

  /** The pages of an iterable, of the size and from the continuation that the step asks for. */
  static <T> Answer pages(CosmosPagedIterable<T> feed, Arguments a, Function<T, JsonNode> json) {
    String from = a.text("continuation");
    Integer size = a.integer("page_size");
    Iterable<FeedResponse<T>> pages;
    if (from == null) pages = size == null ? feed.iterableByPage() : feed.iterableByPage(size);
    else pages = size == null ? feed.iterableByPage(from) : feed.iterableByPage(from, size);
    return Answer.of(pages, a, json, false);
  }

  private static <T> Answer pages(CosmosPagedFlux<T> feed, Arguments a, Function<T, JsonNode> json) {
    return Answer.of(feed.byPage().toIterable(), a, json, false);
  }

  private Answer listItems(Arguments a) {
    if (!a.has("partition_key")) throw new Main.Missing("all partition keys");
    reach("CosmosContainer.readAllItems");
    return pages(clients.container(a).readAllItems(a.partitionKey(), JsonNode.class), a, item -> item);
  }

  private Answer queryItems(Arguments a) {
    reach("CosmosContainer.queryItems");
    CosmosQueryRequestOptions options = new CosmosQueryRequestOptions()
        .setPartitionKey(a.partitionKey())
        .setSessionToken(a.text("session_token"))
        .setIndexMetricsEnabled(a.flag("index_metrics"))
        .setQueryMetricsEnabled(a.flag("metrics"));
    if (a.has("feed_range")) {
      reach("FeedRange.fromString");
      options.setFeedRange(FeedRange.fromString(a.text("feed_range")));
    }
    if (a.has("continuation_limit_kb")) options.setResponseContinuationTokenLimitInKb(a.integer("continuation_limit_kb"));
    return pages(clients.container(a).queryItems(a.query(), options, JsonNode.class), a, item -> item);
  }

  private Answer readFeedRanges(Arguments a) {
    reach("CosmosContainer.getFeedRanges");
    return Answer.of(200).with("items", Main.list(clients.container(a).getFeedRanges().stream().map(Feeds::text).toList()));
  }

  private Answer feedRangeOfPartitionKey(Arguments a) {
    clients.container(a); // the range of a key is the key itself; no container is asked
    reach("FeedRange.forLogicalPartition");
    return Answer.of(200).with("items", Main.JSON.createArrayNode().add(text(FeedRange.forLogicalPartition(a.partitionKey()))));
  }

  private static JsonNode text(FeedRange range) {
    return Main.JSON.getNodeFactory().textNode(range.toString());
  }

  private Answer changeFeed(Arguments a) {
    CosmosChangeFeedRequestOptions options = start(a);
    if (a.has("page_size")) options.setMaxItemCount(a.integer("page_size"));
    if ("all versions".equals(a.text("mode"))) {
      reach("CosmosChangeFeedRequestOptions.allVersionsAndDeletes");
      options.allVersionsAndDeletes();
    }
    reach("CosmosContainer.queryChangeFeed");
    Iterable<FeedResponse<JsonNode>> pages = clients.container(a).queryChangeFeed(options, JsonNode.class).iterableByPage();
    return Answer.of(pages, a, item -> item, true);
  }

  private static CosmosChangeFeedRequestOptions start(Arguments a) {
    FeedRange range = FeedRange.forFullRange();
    if (a.has("feed_range")) range = FeedRange.fromString(a.text("feed_range"));
    else if (a.has("partition_key")) range = FeedRange.forLogicalPartition(a.partitionKey());
    else reach("FeedRange.forFullRange");
    String start = a.text("start");
    if (a.has("continuation")) {
      reach("CosmosChangeFeedRequestOptions.createForProcessingFromContinuation");
      return CosmosChangeFeedRequestOptions.createForProcessingFromContinuation(a.text("continuation"));
    }
    if (start == null || start.equals("beginning")) {
      reach("CosmosChangeFeedRequestOptions.createForProcessingFromBeginning");
      return CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(range);
    }
    if (start.equals("now")) {
      reach("CosmosChangeFeedRequestOptions.createForProcessingFromNow");
      return CosmosChangeFeedRequestOptions.createForProcessingFromNow(range);
    }
    reach("CosmosChangeFeedRequestOptions.createForProcessingFromPointInTime");
    return CosmosChangeFeedRequestOptions.createForProcessingFromPointInTime(Instant.parse(start), range);
  }

  private Answer listConflicts(Arguments a) {
    reach("CosmosAsyncContainer.readAllConflicts");
    return pages(clients.asynchronousContainer(a).readAllConflicts(new CosmosQueryRequestOptions()), a,
        conflict -> Main.JSON.createObjectNode().put("id", conflict.getId()));
  }

  private Answer queryConflicts(Arguments a) {
    reach("CosmosAsyncContainer.queryConflicts");
    return pages(clients.asynchronousContainer(a).queryConflicts(a.text("query")), a,
        conflict -> Main.JSON.createObjectNode().put("id", conflict.getId()));
  }
}
