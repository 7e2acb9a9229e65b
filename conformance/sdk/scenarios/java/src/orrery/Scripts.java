package orrery;

import static orrery.Methods.reach;

import com.azure.cosmos.CosmosScripts;
import com.azure.cosmos.CosmosStoredProcedure;
import com.azure.cosmos.CosmosTrigger;
import com.azure.cosmos.CosmosUserDefinedFunction;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.CosmosStoredProcedureProperties;
import com.azure.cosmos.models.CosmosStoredProcedureRequestOptions;
import com.azure.cosmos.models.CosmosStoredProcedureResponse;
import com.azure.cosmos.models.CosmosTriggerProperties;
import com.azure.cosmos.models.CosmosTriggerResponse;
import com.azure.cosmos.models.CosmosUserDefinedFunctionProperties;
import com.azure.cosmos.models.CosmosUserDefinedFunctionResponse;
import com.azure.cosmos.models.TriggerOperation;
import com.azure.cosmos.models.TriggerType;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Stored procedures, triggers and user-defined functions. */
final class Scripts {
  private final Clients clients;

  Scripts(Clients clients) {
    this.clients = clients;
  }

  void register(Map<String, Main.Operation> operations) {
    operations.put("create_stored_procedure", a -> {
      reach("CosmosScripts.createStoredProcedure");
      return answer(scripts(a).createStoredProcedure(procedure(a)));
    });
    operations.put("read_stored_procedure", a -> {
      reach("CosmosScripts.getStoredProcedure", "CosmosStoredProcedure.read");
      return answer(scripts(a).getStoredProcedure(a.text("id")).read());
    });
    operations.put("replace_stored_procedure", a -> {
      reach("CosmosStoredProcedure.replace");
      CosmosStoredProcedure stored = scripts(a).getStoredProcedure(a.text("id"));
      return answer(stored.replace(stored.read().getProperties().setBody(body(a))));
    });
    operations.put("delete_stored_procedure", a -> {
      reach("CosmosStoredProcedure.delete");
      return answer(scripts(a).getStoredProcedure(a.text("id")).delete());
    });
    operations.put("list_stored_procedures", a -> {
      reach("CosmosScripts.readAllStoredProcedures");
      return Feeds.pages(scripts(a).readAllStoredProcedures(), a, Scripts::json);
    });
    operations.put("query_stored_procedures", a -> {
      reach("CosmosScripts.queryStoredProcedures");
      return Feeds.pages(scripts(a).queryStoredProcedures(a.query(), new CosmosQueryRequestOptions()), a, Scripts::json);
    });
    operations.put("execute_stored_procedure", this::execute);
    registerTriggers(operations);
    registerFunctions(operations);
  }

  private void registerTriggers(Map<String, Main.Operation> operations) {
    operations.put("create_trigger", a -> {
      reach("CosmosScripts.createTrigger");
      return answer(scripts(a).createTrigger(trigger(a)));
    });
    operations.put("read_trigger", a -> {
      reach("CosmosScripts.getTrigger", "CosmosTrigger.read");
      return answer(scripts(a).getTrigger(a.text("id")).read());
    });
    operations.put("replace_trigger", a -> {
      reach("CosmosTrigger.replace");
      CosmosTrigger stored = scripts(a).getTrigger(a.text("id"));
      return answer(stored.replace(fill(stored.read().getProperties(), a).setBody(body(a))));
    });
    operations.put("delete_trigger", a -> {
      reach("CosmosTrigger.delete");
      return answer(scripts(a).getTrigger(a.text("id")).delete());
    });
    operations.put("list_triggers", a -> {
      reach("CosmosScripts.readAllTriggers");
      return Feeds.pages(scripts(a).readAllTriggers(), a, Scripts::json);
    });
    operations.put("query_triggers", a -> {
      reach("CosmosScripts.queryTriggers");
      return Feeds.pages(scripts(a).queryTriggers(a.query(), new CosmosQueryRequestOptions()), a, Scripts::json);
    });
  }

  private void registerFunctions(Map<String, Main.Operation> operations) {
    operations.put("create_user_defined_function", a -> {
      reach("CosmosScripts.createUserDefinedFunction");
      return answer(scripts(a).createUserDefinedFunction(function(a)));
    });
    operations.put("read_user_defined_function", a -> {
      reach("CosmosScripts.getUserDefinedFunction", "CosmosUserDefinedFunction.read");
      return answer(scripts(a).getUserDefinedFunction(a.text("id")).read());
    });
    operations.put("replace_user_defined_function", a -> {
      reach("CosmosUserDefinedFunction.replace");
      CosmosUserDefinedFunction stored = scripts(a).getUserDefinedFunction(a.text("id"));
      return answer(stored.replace(stored.read().getProperties().setBody(body(a))));
    });
    operations.put("delete_user_defined_function", a -> {
      reach("CosmosUserDefinedFunction.delete");
      return answer(scripts(a).getUserDefinedFunction(a.text("id")).delete());
    });
    operations.put("list_user_defined_functions", a -> {
      reach("CosmosScripts.readAllUserDefinedFunctions");
      return Feeds.pages(scripts(a).readAllUserDefinedFunctions(), a, Scripts::json);
    });
    operations.put("query_user_defined_functions", a -> {
      reach("CosmosScripts.queryUserDefinedFunctions");
      return Feeds.pages(scripts(a).queryUserDefinedFunctions(a.query(), new CosmosQueryRequestOptions()), a, Scripts::json);
    });
  }

  private CosmosScripts scripts(Arguments a) {
    reach("CosmosContainer.getScripts");
    return clients.container(a).getScripts();
  }

  private Answer execute(Arguments a) {
    reach("CosmosStoredProcedure.execute");
    CosmosStoredProcedureRequestOptions options = new CosmosStoredProcedureRequestOptions()
        .setPartitionKey(a.partitionKey()).setScriptLoggingEnabled(a.flag("log"));
    JsonNode given = a.json("arguments");
    List<Object> arguments = given == null ? List.of() : Properties.each(given, Arguments::plain);
    CosmosStoredProcedureResponse done = scripts(a).getStoredProcedure(a.text("id")).execute(arguments, options);
    Answer answer = Answer.of(done);
    String said = done.getResponseAsString();
    try {
      return said == null || said.isEmpty() ? answer : answer.body(Main.JSON.readTree(said));
    } catch (JsonProcessingException noJson) {
      return answer.body(Main.JSON.getNodeFactory().textNode(said));
    }
  }

  /** The new text of a script. The SDK replaces only what it has read: it goes by the self link. */
  private static String body(Arguments a) {
    return a.json("properties").path("body").asText();
  }

  private static CosmosStoredProcedureProperties procedure(Arguments a) {
    JsonNode json = a.json("properties");
    return new CosmosStoredProcedureProperties(json.path("id").asText(), json.path("body").asText());
  }

  private static CosmosTriggerProperties trigger(Arguments a) {
    JsonNode json = a.json("properties");
    return fill(new CosmosTriggerProperties(json.path("id").asText(), json.path("body").asText()), a);
  }

  private static CosmosTriggerProperties fill(CosmosTriggerProperties properties, Arguments a) {
    JsonNode json = a.json("properties");
    return properties.setTriggerType(TriggerType.valueOf(json.path("triggerType").asText().toUpperCase(Locale.ROOT)))
        .setTriggerOperation(TriggerOperation.valueOf(json.path("triggerOperation").asText().toUpperCase(Locale.ROOT)));
  }

  private static CosmosUserDefinedFunctionProperties function(Arguments a) {
    JsonNode json = a.json("properties");
    return new CosmosUserDefinedFunctionProperties(json.path("id").asText(), json.path("body").asText());
  }

  private static Answer answer(CosmosStoredProcedureResponse response) {
    Answer answer = Answer.of(response);
    return response.getProperties() == null ? answer : answer.body(json(response.getProperties()));
  }

  private static Answer answer(CosmosTriggerResponse response) {
    Answer answer = Answer.of(response);
    return response.getProperties() == null ? answer : answer.body(json(response.getProperties()));
  }

  private static Answer answer(CosmosUserDefinedFunctionResponse response) {
    Answer answer = Answer.of(response);
    return response.getProperties() == null ? answer : answer.body(json(response.getProperties()));
  }

  private static ObjectNode json(CosmosStoredProcedureProperties properties) {
    return Main.JSON.createObjectNode().put("id", properties.getId()).put("body", properties.getBody());
  }

  private static ObjectNode json(CosmosTriggerProperties properties) {
    return Main.JSON.createObjectNode().put("id", properties.getId()).put("body", properties.getBody())
        .put("triggerType", properties.getTriggerType().toString())
        .put("triggerOperation", properties.getTriggerOperation().toString());
  }

  private static ObjectNode json(CosmosUserDefinedFunctionProperties properties) {
    return Main.JSON.createObjectNode().put("id", properties.getId()).put("body", properties.getBody());
  }
}
