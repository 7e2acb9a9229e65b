package orrery;

import static orrery.Methods.reach;

import com.azure.cosmos.CosmosAsyncPermission;
import com.azure.cosmos.CosmosAsyncUser;
import com.azure.cosmos.CosmosUser;
import com.azure.cosmos.models.CosmosPermissionProperties;
import com.azure.cosmos.models.CosmosPermissionRequestOptions;
import com.azure.cosmos.models.CosmosPermissionResponse;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.CosmosUserProperties;
import com.azure.cosmos.models.CosmosUserResponse;
import com.azure.cosmos.models.PermissionMode;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Locale;
import java.util.Map;

/** Users, and their permissions, which only the asynchronous client has. */
final class Users {
  private final Clients clients;

  Users(Clients clients) {
    this.clients = clients;
  }

  void register(Map<String, Main.Operation> operations) {
    operations.put("create_user", a -> {
      reach("CosmosDatabase.createUser");
      return answer(clients.database(a).createUser(user(a)));
    });
    operations.put("upsert_user", a -> {
      reach("CosmosDatabase.upsertUser");
      return answer(clients.database(a).upsertUser(user(a)));
    });
    operations.put("read_user", a -> {
      reach("CosmosDatabase.getUser", "CosmosUser.read");
      return answer(clients.database(a).getUser(a.text("id")).read());
    });
    operations.put("replace_user", a -> {
      reach("CosmosUser.replace");
      // The SDK replaces only what it has read: it goes by the self link.
      CosmosUser stored = clients.database(a).getUser(a.text("id"));
      return answer(stored.replace(stored.read().getProperties().setId(user(a).getId())));
    });
    operations.put("delete_user", a -> {
      reach("CosmosUser.delete");
      return answer(clients.database(a).getUser(a.text("id")).delete());
    });
    operations.put("list_users", a -> {
      reach("CosmosDatabase.readAllUsers");
      return Feeds.pages(clients.database(a).readAllUsers(), a, Users::json);
    });
    operations.put("query_users", a -> {
      reach("CosmosDatabase.queryUsers");
      return Feeds.pages(clients.database(a).queryUsers(a.query(), new CosmosQueryRequestOptions()), a, Users::json);
    });
    registerPermissions(operations);
  }

  private void registerPermissions(Map<String, Main.Operation> operations) {
    operations.put("create_permission", a -> {
      reach("CosmosAsyncUser.createPermission");
      return answer(owner(a).createPermission(permission(a), new CosmosPermissionRequestOptions()).block());
    });
    operations.put("upsert_permission", a -> {
      reach("CosmosAsyncUser.upsertPermission");
      return answer(owner(a).upsertPermission(permission(a), new CosmosPermissionRequestOptions()).block());
    });
    operations.put("read_permission", a -> {
      reach("CosmosAsyncUser.getPermission", "CosmosAsyncPermission.read");
      return answer(existing(a).read(new CosmosPermissionRequestOptions()).block());
    });
    operations.put("replace_permission", a -> {
      reach("CosmosAsyncPermission.replace");
      CosmosPermissionRequestOptions options = new CosmosPermissionRequestOptions();
      CosmosAsyncPermission stored = existing(a);
      CosmosPermissionProperties properties = stored.read(options).block().getProperties();
      CosmosPermissionProperties wanted = permission(a);
      properties.setId(wanted.getId()).setPermissionMode(wanted.getPermissionMode());
      return answer(stored.replace(properties, options).block());
    });
    operations.put("delete_permission", a -> {
      reach("CosmosAsyncPermission.delete");
      return answer(existing(a).delete(new CosmosPermissionRequestOptions()).block());
    });
    operations.put("list_permissions", a -> {
      reach("CosmosAsyncUser.readAllPermissions");
      return Answer.of(owner(a).readAllPermissions().byPage().toIterable(), a, Users::json, false);
    });
    operations.put("query_permissions", a -> {
      reach("CosmosAsyncUser.queryPermissions");
      return Answer.of(owner(a).queryPermissions(a.text("query")).byPage().toIterable(), a, Users::json, false);
    });
  }

  private CosmosAsyncUser owner(Arguments a) {
    return clients.asynchronousDatabase(a).getUser(a.text("user"));
  }

  private CosmosAsyncPermission existing(Arguments a) {
    return owner(a).getPermission(a.text("id"));
  }

  private static CosmosUserProperties user(Arguments a) {
    return new CosmosUserProperties().setId(a.json("properties").path("id").asText());
  }

  /** The SDK knows permissions on a container by its name, `…/colls/NAME`, and on partition keys of it. */
  private static CosmosPermissionProperties permission(Arguments a) {
    JsonNode json = a.json("properties");
    String[] resource = json.path("resource").asText().split("/");
    if (resource.length != 4) throw new Main.Missing("a permission on another resource than a container");
    CosmosPermissionProperties permission = new CosmosPermissionProperties().setId(json.path("id").asText())
        .setContainerName(resource[3])
        .setPermissionMode(PermissionMode.valueOf(json.path("permissionMode").asText().toUpperCase(Locale.ROOT)));
    if (json.has("resourcePartitionKey")) permission.setResourcePartitionKey(Arguments.key(json.path("resourcePartitionKey")));
    return permission;
  }

  private static Answer answer(CosmosUserResponse response) {
    Answer answer = Answer.of(response);
    return response.getProperties() == null ? answer : answer.body(json(response.getProperties()));
  }

  private static Answer answer(CosmosPermissionResponse response) {
    Answer answer = Answer.of(response);
    return response.getProperties() == null ? answer : answer.body(json(response.getProperties()));
  }

  private static ObjectNode json(CosmosUserProperties properties) {
    return Main.JSON.createObjectNode().put("id", properties.getId());
  }

  private static ObjectNode json(CosmosPermissionProperties properties) {
    return Main.JSON.createObjectNode().put("id", properties.getId()).put("_token", properties.getToken())
        .put("permissionMode", properties.getPermissionMode().toString());
  }
}
