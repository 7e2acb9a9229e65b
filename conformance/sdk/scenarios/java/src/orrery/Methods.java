package orrery;

import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.CosmosAsyncDatabase;
import com.azure.cosmos.CosmosAsyncPermission;
import com.azure.cosmos.CosmosAsyncScripts;
import com.azure.cosmos.CosmosAsyncStoredProcedure;
import com.azure.cosmos.CosmosAsyncTrigger;
import com.azure.cosmos.CosmosAsyncUser;
import com.azure.cosmos.CosmosAsyncUserDefinedFunction;
import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.CosmosScripts;
import com.azure.cosmos.CosmosStoredProcedure;
import com.azure.cosmos.CosmosTrigger;
import com.azure.cosmos.CosmosUser;
import com.azure.cosmos.CosmosUserDefinedFunction;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosBulkOperations;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.ThroughputProperties;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/** Which public methods there are to ask the service for something, and which of them were called. */
final class Methods {
  private static final Set<String> REACHED = new TreeSet<>();

  /** The asynchronous clients beside the synchronous ones, whose methods of the same name do the same. */
  private static final Map<Class<?>, Class<?>> TWINS = new LinkedHashMap<>();

  static {
    TWINS.put(CosmosAsyncClient.class, CosmosClient.class);
    TWINS.put(CosmosAsyncDatabase.class, CosmosDatabase.class);
    TWINS.put(CosmosAsyncContainer.class, CosmosContainer.class);
    TWINS.put(CosmosAsyncScripts.class, CosmosScripts.class);
    TWINS.put(CosmosAsyncStoredProcedure.class, CosmosStoredProcedure.class);
    TWINS.put(CosmosAsyncTrigger.class, CosmosTrigger.class);
    TWINS.put(CosmosAsyncUserDefinedFunction.class, CosmosUserDefinedFunction.class);
    TWINS.put(CosmosAsyncUser.class, CosmosUser.class);
  }

  /** Types that have only one form. */
  private static final Class<?>[] ALONE = {
    CosmosAsyncPermission.class, ThroughputProperties.class, CosmosBatch.class, CosmosBulkOperations.class,
    CosmosPatchOperations.class, FeedRange.class,
  };

  private Methods() {}

  static void reach(String... methods) {
    REACHED.addAll(Set.of(methods));
  }

  static Set<String> reached() {
    return REACHED;
  }

  /** Every public method by name; of an asynchronous client only what its twin does not have. */
  static Set<String> all() {
    Set<String> all = new TreeSet<>();
    TWINS.forEach((asynchronous, synchronous) -> {
      Set<String> known = names(synchronous);
      known.forEach(name -> all.add(synchronous.getSimpleName() + "." + name));
      names(asynchronous).stream().filter(name -> !known.contains(name))
          .forEach(name -> all.add(asynchronous.getSimpleName() + "." + name));
    });
    for (Class<?> type : ALONE) names(type).forEach(name -> all.add(type.getSimpleName() + "." + name));
    for (Method method : CosmosChangeFeedRequestOptions.class.getDeclaredMethods()) {
      // Of the options only where a feed starts and what it brings.
      boolean starts = Modifier.isStatic(method.getModifiers()) && method.getName().startsWith("create");
      if (Modifier.isPublic(method.getModifiers()) && (starts || method.getName().equals("allVersionsAndDeletes"))) {
        all.add("CosmosChangeFeedRequestOptions." + method.getName());
      }
    }
    return all;
  }

  private static Set<String> names(Class<?> type) {
    Set<String> names = new TreeSet<>();
    for (Method method : type.getDeclaredMethods()) {
      boolean is = Modifier.isPublic(method.getModifiers()) && !method.isSynthetic() && !method.isBridge();
      if (is && !Set.of("equals", "hashCode", "toString").contains(method.getName())) names.add(method.getName());
    }
    return names;
  }
}
