package orrery;

import static orrery.Operations.ENDPOINT;
import static orrery.Operations.KEY;
import static orrery.Operations.equal;
import static orrery.Operations.refused;

import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.PartitionKey;
import com.azure.spring.data.cosmos.config.AbstractCosmosConfiguration;
import com.azure.spring.data.cosmos.core.CosmosTemplate;
import com.azure.spring.data.cosmos.core.query.CosmosPageRequest;
import com.azure.spring.data.cosmos.exception.CosmosAccessException;
import com.azure.spring.data.cosmos.exception.CosmosConflictException;
import com.azure.spring.data.cosmos.exception.CosmosPreconditionFailedException;
import com.azure.spring.data.cosmos.repository.config.EnableCosmosRepositories;
import java.util.List;
import java.util.function.Function;
import java.util.stream.StreamSupport;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.data.domain.Page;
import org.springframework.data.domain.Sort;

/** azure-spring-data-cosmos: a repository with derived queries, queries in SQL, pages and patches. */
public final class SpringData {
  private static String database;

  private static final List<Person> PERSONS = List.of(
      new Person("ann", "Rome", "Ann", 20, List.of("chess", "rowing")),
      new Person("bob", "Rome", "Bob", 30, List.of("chess")),
      new Person("cid", "Oslo", "Cid", 40, List.of("rowing")),
      new Person("dan", "Oslo", "Dan", 50, List.of()),
      new Person("eve", "Bern", "Eve", 60, List.of("skiing", "chess")));

  /** The beans that an application declares. */
  @Configuration
  @EnableCosmosRepositories(basePackageClasses = People.class)
  static class Beans extends AbstractCosmosConfiguration {
    @Bean
    CosmosClientBuilder builder() {
      return new CosmosClientBuilder().endpoint(ENDPOINT).key(KEY).gatewayMode();
    }

    @Override
    protected String getDatabaseName() {
      return database;
    }
  }

  private final Operations program;
  private People people;
  private CosmosTemplate template;

  private SpringData(Operations program) {
    this.program = program;
  }

  public static void main(String[] words) throws Exception {
    ServerTrust.begin(ENDPOINT);
    Operations program = new Operations("com.azure", "azure-spring-data-cosmos");
    database = program.database;
    new SpringData(program).run();
    program.end();
  }

  private void run() {
    program.operation("an application starts: its database and container are created", this::start);
    program.operation("entities are saved, one and many, and counted", this::save);
    program.operation("an entity is found by its id, with and without its key", this::find);
    program.operation("a saved entity is replaced under its etag, and a stale one is refused", this::replace);
    program.operation("an insert of an id that exists is refused", this::insert);
    program.operation("queries derived from names compare, match and count", this::derived);
    program.operation("entities are sorted and limited over all partitions", this::sorted);
    program.operation("pages follow each other over all partitions", this::pages);
    program.operation("queries in SQL have parameters, aggregates and groups", this::annotated);
    program.operation("an entity is patched, under a condition too", this::patch);
    program.operation("the entities of a partition are listed", this::partition);
    program.operation("entities are deleted by id, by key and all", this::delete);
  }

  private void start() {
    AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext(Beans.class);
    people = context.getBean(People.class);
    template = context.getBean(CosmosTemplate.class);
    equal(template.getContainerProperties("people").getPartitionKeyDefinition().getPaths(), List.of("/city"));
  }

  private void save() {
    equal(people.save(PERSONS.get(0)).getName(), "Ann");
    people.saveAll(PERSONS.subList(1, PERSONS.size()));
    equal(people.count(), 5L);
  }

  private void find() {
    equal(people.findById("cid").map(Person::getAge).orElse(0), 40);
    equal(people.findById("cid", new PartitionKey("Oslo")).map(Person::getHobbies).orElse(null), List.of("rowing"));
    equal(people.findById("cid", new PartitionKey("Rome")).isPresent(), false);
    equal(ids(people.findAllById(List.of("ann", "eve", "absent"))), List.of("ann", "eve"));
    equal(people.existsById("dan"), true);
  }

  private void replace() throws Exception {
    Person first = people.findById("bob").orElseThrow();
    Person stale = people.findById("bob").orElseThrow();
    first.setAge(31);
    equal(people.save(first).getAge(), 31);
    stale.setAge(99);
    refused(CosmosPreconditionFailedException.class, () -> people.save(stale));
    equal(people.findById("bob").map(Person::getAge).orElse(0), 31);
  }

  private void insert() throws Exception {
    Person again = new Person("ann", "Rome", "Ann again", 1, List.of());
    refused(CosmosConflictException.class, () -> template.insert("people", again, new PartitionKey("Rome")));
  }

  private void derived() {
    equal(ids(people.findByCityAndAgeGreaterThanEqual("Rome", 25)), List.of("bob"));
    equal(ids(people.findByNameStartsWithIgnoreCase("E")), List.of("eve"));
    equal(ids(people.findByNameContaining("i")), List.of("cid"));
    equal(people.existsByName("Dan"), true);
    equal(people.existsByName("Nobody"), false);
    equal(people.countByCity("Oslo"), 2L);
  }

  private void sorted() {
    equal(inOrder(people.findAll(Sort.by("age").descending()), Person::getId), List.of("eve", "dan", "cid", "bob", "ann"));
    equal(inOrder(people.findTop2ByOrderByAgeDesc(), Person::getId), List.of("eve", "dan"));
  }

  private void pages() {
    Page<Person> page = people.findByAgeBetween(20, 50, new CosmosPageRequest(0, 3, null, Sort.by("age")));
    equal(inOrder(page, Person::getId), List.of("ann", "bob", "cid"));
    equal(page.getTotalElements(), 4L);
    page = people.findByAgeBetween(20, 50, page.getPageable().next());
    equal(inOrder(page, Person::getId), List.of("dan"));
    equal(page.hasNext(), false);
  }

  private void annotated() {
    equal(inOrder(people.ofAges(60, 40), Person::getId), List.of("cid", "eve"));
    equal(ids(people.withHobby("chess")), List.of("ann", "bob", "eve"));
    equal(people.sumOfAges(), List.of(201));
    int counted = 0;
    for (var group : people.peopleOfCities()) counted += group.get("people").asInt();
    equal(counted, 5);
  }

  private void patch() throws Exception {
    CosmosPatchOperations older = CosmosPatchOperations.create().increment("/age", 1).add("/hobbies/0", "sailing");
    Person patched = people.save("dan", new PartitionKey("Oslo"), Person.class, older);
    equal(patched.getAge(), 51);
    equal(patched.getHobbies(), List.of("sailing"));
    var options = new com.azure.cosmos.models.CosmosPatchItemRequestOptions();
    options.setFilterPredicate("FROM p WHERE p.age > 90");
    refused(CosmosAccessException.class,
        () -> people.save("dan", new PartitionKey("Oslo"), Person.class, older, options));
  }

  private void partition() {
    equal(ids(people.findAll(new PartitionKey("Oslo"))), List.of("cid", "dan"));
  }

  private void delete() {
    people.deleteById("ann", new PartitionKey("Rome"));
    people.delete(people.findById("bob").orElseThrow());
    equal(ids(people.findAll()), List.of("cid", "dan", "eve"));
    people.deleteAll();
    equal(people.count(), 0L);
    template.deleteContainer("people");
  }

  private static List<String> ids(Iterable<Person> found) {
    return inOrder(found, Person::getId).stream().sorted().toList();
  }

  private static <T> List<T> inOrder(Iterable<Person> found, Function<Person, T> part) {
    return StreamSupport.stream(found.spliterator(), false).map(part).toList();
  }
}
