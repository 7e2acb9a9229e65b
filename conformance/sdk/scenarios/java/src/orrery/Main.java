package orrery;

import com.azure.cosmos.CosmosException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * The driver for the Java SDK: carries out the operations of the table with azure-cosmos, in gateway mode until it is
 * told another one.
 *
 * <p>It reads a line of JSON and writes one; conformance/sdk/scenarios/driver.py has the agreement. The synchronous clients
 * do the work, the asynchronous ones only what those have no method for. Every public method of the clients is called
 * under its name (Methods.reach), so that the run can say which no scenario leads to.
 */
public final class Main {
  /** One operation of the table. */
  interface Operation {
    Answer run(Arguments arguments);
  }

  /** Says that the SDK has no public method or option for what was asked. */
  static final class Missing extends RuntimeException {
    Missing(String what) {
      super(what);
    }
  }

  static final ObjectMapper JSON = new ObjectMapper();

  private final Map<String, Operation> operations = new HashMap<>();
  private final Clients clients;

  private Main(Clients clients) {
    this.clients = clients;
    new Resources(clients).register(operations);
    new Items(clients).register(operations);
    new Feeds(clients).register(operations);
    new Scripts(clients).register(operations);
    new Users(clients).register(operations);
  }

  public static void main(String[] words) throws IOException {
    // The SDK forces https unless it is told that plain http is meant.
    System.setProperty("COSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED", "true");
    // Both are needed for frames: the SDK accepts any certificate of this host only.
    String endpoint = System.getenv("ORRERY_ENDPOINT");
    System.setProperty("COSMOS.EMULATOR_SERVER_CERTIFICATE_VALIDATION_DISABLED", "true");
    System.setProperty("COSMOS.EMULATOR_HOST", URI.create(endpoint).getHost());
    // In direct mode the SDK repeats a read whose session token is ahead of the server for four times as long.
    System.setProperty("COSMOS.DEFAULT_SESSION_TOKEN_MISMATCH_WAIT_TIME_IN_MILLISECONDS", "250");
    Main driver = new Main(new Clients(endpoint, System.getenv("ORRERY_KEY")));
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      out.println(JSON.writeValueAsString(driver.said(JSON.readTree(line))));
    }
    driver.clients.close();
    System.exit(0); // the SDK's schedulers would keep the process for a while
  }

  /** The answer to one line. */
  private JsonNode said(JsonNode request) {
    String asked = request.path("do").asText();
    switch (asked) {
      case "reset":
        clients.reset();
        return JSON.createObjectNode();
      case "mode":
        clients.use(request.path("with").path("mode").asText());
        return JSON.createObjectNode();
      case "methods":
        ObjectNode methods = JSON.createObjectNode();
        methods.set("methods", JSON.valueToTree(Methods.all()));
        methods.set("reached", JSON.valueToTree(Methods.reached()));
        return methods;
      default:
        Operation operation = operations.get(asked);
        if (operation == null) return one("missing", asked);
        Arguments arguments = new Arguments((ObjectNode) request.path("with"));
        JsonNode reply = carryOut(operation, arguments, asked);
        boolean whole = arguments.unused().isEmpty() || reply.has("missing");
        return whole ? reply : one("missing", asked + " with " + arguments.unused());
    }
  }

  private static JsonNode carryOut(Operation operation, Arguments arguments, String asked) {
    try {
      return operation.run(arguments).json();
    } catch (Missing missing) {
      return one("missing", asked + " with " + missing.getMessage());
    } catch (RuntimeException failure) {
      // Asynchronous failures arrive wrapped.
      for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
        if (cause instanceof CosmosException refused) return Answer.of(refused).json();
      }
      return one("raised", failure.toString());
    }
  }

  private static ObjectNode one(String name, String text) {
    return JSON.createObjectNode().put(name, text);
  }

  /** A list of values as JSON. */
  static ArrayNode list(Iterable<? extends JsonNode> values) {
    ArrayNode list = JSON.createArrayNode();
    values.forEach(list::add);
    return list;
  }
}
