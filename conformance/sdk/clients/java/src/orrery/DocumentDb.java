package orrery;

import static orrery.Operations.ENDPOINT;
import static orrery.Operations.KEY;
import static orrery.Operations.equal;
import static orrery.Operations.refused;

import com.microsoft.azure.documentdb.AccessCondition;
import com.microsoft.azure.documentdb.AccessConditionType;
import com.microsoft.azure.documentdb.ConnectionPolicy;
import com.microsoft.azure.documentdb.ConsistencyLevel;
import com.microsoft.azure.documentdb.Database;
import com.microsoft.azure.documentdb.Document;
import com.microsoft.azure.documentdb.DocumentClient;
import com.microsoft.azure.documentdb.DocumentClientException;
import com.microsoft.azure.documentdb.DocumentCollection;
import com.microsoft.azure.documentdb.FeedOptions;
import com.microsoft.azure.documentdb.Offer;
import com.microsoft.azure.documentdb.PartitionKey;
import com.microsoft.azure.documentdb.PartitionKeyDefinition;
import com.microsoft.azure.documentdb.RequestOptions;
import com.microsoft.azure.documentdb.SqlParameter;
import com.microsoft.azure.documentdb.SqlParameterCollection;
import com.microsoft.azure.documentdb.SqlQuerySpec;
import com.microsoft.azure.documentdb.StoredProcedure;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;

/** azure-documentdb, the first SDK for Java: databases, collections, documents, queries, scripts, offers. */
public final class DocumentDb {
  private static final String ADD = """
      function add(name) {
        const context = getContext(), collection = context.getCollection();
        const accepted = collection.createDocument(collection.getSelfLink(), { id: name, city: "NY", income: 1 },
          (error, created) => { if (error) throw error; context.getResponse().setBody(created.id); });
        if (!accepted) throw new Error("not accepted");
      }""";

  private final Operations program;
  private final DocumentClient client;
  private final String database;
  private final String collection;

  private DocumentDb(Operations program) {
    this.program = program;
    client = new DocumentClient(ENDPOINT, KEY, ConnectionPolicy.GetDefault(), ConsistencyLevel.Session);
    database = "/dbs/" + program.database;
    collection = database + "/colls/families";
  }

  public static void main(String[] words) throws Exception {
    ServerTrust.begin(ENDPOINT);
    Operations program = new Operations("com.microsoft.azure", "azure-documentdb");
    new DocumentDb(program).run();
    program.end();
  }

  private void run() {
    program.operation("a database is created, and found by a query", this::createDatabase);
    program.operation("a collection is created with a partition key and a throughput", this::createCollection);
    program.operation("documents are created, and a second one of the same id is refused", this::createDocuments);
    program.operation("a document is read in the session of its write", this::readDocument);
    program.operation("a document is replaced under its etag, and a stale etag is refused", this::replaceDocument);
    program.operation("a document is upserted twice", this::upsertDocument);
    program.operation("all documents are read in pages of one", this::readAll);
    program.operation("a query in one partition has a parameter and a join", this::queryPartition);
    program.operation("an ordered query crosses partitions and is merged by the client", this::queryOrdered);
    program.operation("an aggregate crosses partitions", this::aggregate);
    program.operation("a stored procedure creates a document", this::executeProcedure);
    program.operation("the offer of the collection is found and replaced", this::replaceOffer);
    program.operation("documents, the collection and the database are deleted", this::deleteAll);
  }

  private void createDatabase() throws Exception {
    Database asked = new Database();
    asked.setId(program.database);
    equal(client.createDatabase(asked, null).getResource().getId(), program.database);
    SqlParameterCollection parameters = new SqlParameterCollection(new SqlParameter("@id", program.database));
    SqlQuerySpec query = new SqlQuerySpec("SELECT * FROM r WHERE r.id = @id", parameters);
    equal(client.queryDatabases(query, null).getQueryIterable().toList().size(), 1);
  }

  private void createCollection() throws Exception {
    DocumentCollection asked = new DocumentCollection();
    asked.setId("families");
    PartitionKeyDefinition key = new PartitionKeyDefinition();
    key.setPaths(new ArrayList<>(List.of("/city")));
    asked.setPartitionKey(key);
    RequestOptions options = new RequestOptions();
    options.setOfferThroughput(11000);
    client.createCollection(database, asked, options);
    Collection<String> paths = client.readCollection(collection, null).getResource().getPartitionKey().getPaths();
    equal(List.copyOf(paths), List.of("/city"));
  }

  private void createDocuments() throws Exception {
    Document andersen = new Document("{'id':'andersen','city':'Seattle','children':[{'grade':5}],'income':90}"
        .replace('\'', '"'));
    Document wakefield = new Document("{'id':'wakefield','city':'NY','children':[{'grade':8}],'income':120}"
        .replace('\'', '"'));
    client.createDocument(collection, andersen, null, true);
    client.createDocument(collection, wakefield, null, true);
    equal(status(() -> client.createDocument(collection, andersen, null, true)), 409);
  }

  private void readDocument() throws Exception {
    Document read = client.readDocument(collection + "/docs/andersen", in("Seattle")).getResource();
    equal(read.getInt("income"), 90);
    equal(status(() -> client.readDocument(collection + "/docs/absent", in("Seattle"))), 404);
  }

  private void replaceDocument() throws Exception {
    Document stale = client.readDocument(collection + "/docs/andersen", in("Seattle")).getResource();
    AccessCondition condition = new AccessCondition();
    condition.setType(AccessConditionType.IfMatch);
    condition.setCondition(stale.getETag());
    RequestOptions options = in("Seattle");
    options.setAccessCondition(condition);
    stale.set("income", 95);
    equal(client.replaceDocument(stale, options).getResource().getInt("income"), 95);
    equal(status(() -> client.replaceDocument(stale, options)), 412);
  }

  private void upsertDocument() throws Exception {
    for (int income : new int[] {10, 20}) {
      Document smith = new Document();
      smith.setId("smith");
      smith.set("city", "NY");
      smith.set("income", income);
      equal(client.upsertDocument(collection, smith, null, true).getResource().getInt("income"), income);
    }
  }

  private void readAll() {
    List<String> ids = new ArrayList<>();
    for (Document document : client.readDocuments(collection, pages()).getQueryIterable()) ids.add(document.getId());
    ids.sort(null);
    equal(ids, List.of("andersen", "smith", "wakefield"));
  }

  private void queryPartition() {
    SqlQuerySpec query = new SqlQuerySpec(
        "SELECT f.id, c.grade FROM f JOIN c IN f.children WHERE c.grade > @grade",
        new SqlParameterCollection(new SqlParameter("@grade", 4)));
    FeedOptions options = new FeedOptions();
    options.setPartitionKey(new PartitionKey("NY"));
    List<Document> found = client.queryDocuments(collection, query, options).getQueryIterable().toList();
    equal(found.size(), 1);
    equal(found.get(0).getInt("grade"), 8);
  }

  private void queryOrdered() {
    List<String> ids = new ArrayList<>();
    String query = "SELECT * FROM f ORDER BY f.income DESC";
    for (Document document : client.queryDocuments(collection, query, pages()).getQueryIterable()) ids.add(document.getId());
    equal(ids, List.of("wakefield", "andersen", "smith"));
  }

  private void aggregate() {
    String query = "SELECT VALUE SUM(f.income) FROM f";
    List<Document> found = client.queryDocuments(collection, query, pages()).getQueryIterable().toList();
    equal(found.size(), 1);
    equal(found.get(0).getInt("_aggregate"), 235);
  }

  private void executeProcedure() throws Exception {
    StoredProcedure add = new StoredProcedure();
    add.setId("add");
    add.setBody(ADD);
    client.createStoredProcedure(collection, add, null);
    Object[] arguments = {"jones"};
    String answer =
        client.executeStoredProcedure(collection + "/sprocs/add", in("NY"), arguments).getResponseAsString();
    equal(answer, "\"jones\"");
  }

  private void replaceOffer() throws Exception {
    String link = client.readCollection(collection, null).getResource().getSelfLink();
    String query = "SELECT * FROM r WHERE r.resource = '" + link + "'";
    Offer offer = client.queryOffers(query, null).getQueryIterable().toList().get(0);
    equal(offer.getContent().getInt("offerThroughput"), 11000);
    offer.getContent().put("offerThroughput", 12000);
    equal(client.replaceOffer(offer).getResource().getContent().getInt("offerThroughput"), 12000);
  }

  private void deleteAll() throws Exception {
    client.deleteDocument(collection + "/docs/smith", in("NY"));
    equal(status(() -> client.readDocument(collection + "/docs/smith", in("NY"))), 404);
    client.deleteCollection(collection, null);
    client.deleteDatabase(database, null);
    equal(status(() -> client.readDatabase(database, null)), 404);
  }

  private static int status(Operations.Work work) throws Exception {
    return refused(DocumentClientException.class, work).getStatusCode();
  }

  private static RequestOptions in(String city) {
    RequestOptions options = new RequestOptions();
    options.setPartitionKey(new PartitionKey(city));
    return options;
  }

  /** Options of a query over all partitions, in pages of one. */
  private static FeedOptions pages() {
    FeedOptions options = new FeedOptions();
    options.setEnableCrossPartitionQuery(true);
    options.setPageSize(1);
    return options;
  }
}
