package orrery;

import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosItemResponse;
import com.azure.cosmos.models.CosmosResponse;
import com.azure.cosmos.models.FeedResponse;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;

/** What is said of a request; see matching.py. */
final class Answer {
  private final ObjectNode json = Main.JSON.createObjectNode();

  private Answer(int status, Map<String, String> headers) {
    json.put("status", status);
    ObjectNode all = json.putObject("headers");
    if (headers != null) headers.forEach((name, value) -> all.put(name.toLowerCase(Locale.ROOT), value));
    json.put("substatus", all.path("x-ms-substatus").asInt());
  }

  static Answer of(int status) {
    return new Answer(status, Map.of());
  }

  static Answer of(CosmosException refused) {
    Answer answer = new Answer(refused.getStatusCode(), refused.getResponseHeaders());
    answer.json.put("substatus", refused.getSubStatusCode());
    answer.json.put("message", refused.getShortMessage() == null ? refused.getMessage() : refused.getShortMessage());
    return answer;
  }

  static Answer of(CosmosResponse<?> response) {
    return new Answer(response.getStatusCode(), response.getResponseHeaders());
  }

  static Answer of(CosmosItemResponse<?> response) {
    Answer answer = new Answer(response.getStatusCode(), response.getResponseHeaders());
    return response.getItem() instanceof JsonNode item ? answer.body(item) : answer;
  }

  Answer body(JsonNode body) {
    json.set("body", body);
    return this;
  }

  Answer with(String name, JsonNode value) {
    json.set(name, value);
    return this;
  }

  /**
   * The pages of a feed, or as many of them as the step asks for.
   *
   * @param waits whether the feed is one that ends at a page without news, with the status 304
   */
  static <T> Answer of(Iterable<FeedResponse<T>> pages, Arguments arguments, Function<T, JsonNode> json, boolean waits) {
    Integer most = arguments.integer("max_pages");
    ArrayNode items = Main.JSON.createArrayNode();
    ArrayNode sizes = Main.JSON.createArrayNode();
    FeedResponse<T> last = null;
    for (FeedResponse<T> page : pages) {
      last = page;
      page.getResults().forEach(item -> items.add(json.apply(item)));
      sizes.add(page.getResults().size());
      if (most != null && sizes.size() >= most) break;
    }
    boolean nothingNew = waits && (last == null || last.getResults().isEmpty());
    Answer answer = new Answer(nothingNew ? 304 : 200, last == null ? Map.of() : last.getResponseHeaders());
    answer.json.set("items", items);
    answer.json.set("pages", sizes);
    if (last != null) answer.json.put("continuation", last.getContinuationToken());
    return answer;
  }

  JsonNode json() {
    return json;
  }
}
