"""pydocumentdb, the first SDK for Python: databases, collections, documents, queries, scripts, offers."""

from operations import ENDPOINT, KEY, Program, equal, raises
from pydocumentdb import document_client, documents, errors

program = Program("pydocumentdb")
client = document_client.DocumentClient(ENDPOINT, {"masterKey": KEY}, documents.ConnectionPolicy())
database = f"dbs/{program.database}"
collection = f"{database}/colls/families"
ANDERSEN = {"id": "andersen", "city": "Seattle", "children": [{"grade": 5}], "income": 90}
WAKEFIELD = {"id": "wakefield", "city": "NY", "children": [{"grade": 1}, {"grade": 8}], "income": 120}

with program.operation("a database is created, and found by a query"):
    equal(client.CreateDatabase({"id": program.database})["id"], program.database)
    query = {"query": "SELECT * FROM r WHERE r.id = @id", "parameters": [{"name": "@id", "value": program.database}]}
    equal([found["id"] for found in client.QueryDatabases(query)], [program.database])

with program.operation("a collection is created with a partition key, and read"):
    key = {"paths": ["/city"], "kind": documents.PartitionKind.Hash}
    client.CreateCollection(database, {"id": "families", "partitionKey": key}, {"offerThroughput": 11000})
    equal(client.ReadCollection(collection)["partitionKey"]["paths"], ["/city"])
    equal([found["id"] for found in client.ReadCollections(database)], ["families"])

with program.operation("documents are created, and a second one of the same id is refused"):
    for document in (ANDERSEN, WAKEFIELD):
        equal(client.CreateDocument(collection, document)["id"], document["id"])
    refused = raises(errors.HTTPFailure, client.CreateDocument, collection, ANDERSEN)
    equal(refused.status_code, 409)

with program.operation("a document is read by its key"):
    read = client.ReadDocument(f"{collection}/docs/andersen", {"partitionKey": "Seattle"})
    equal(read["children"], [{"grade": 5}])
    missing = raises(errors.HTTPFailure, client.ReadDocument, f"{collection}/docs/nobody", {"partitionKey": "Seattle"})
    equal(missing.status_code, 404)

with program.operation("a document is replaced under its etag, and a stale etag is refused"):
    link = f"{collection}/docs/andersen"
    stale = client.ReadDocument(link, {"partitionKey": "Seattle"})
    condition = {"accessCondition": {"type": "IfMatch", "condition": stale["_etag"]}}
    equal(client.ReplaceDocument(link, stale | {"income": 95}, condition)["income"], 95)
    refused = raises(errors.HTTPFailure, client.ReplaceDocument, link, stale | {"income": 99}, condition)
    equal(refused.status_code, 412)

with program.operation("a document is upserted twice"):
    equal(client.UpsertDocument(collection, {"id": "smith", "city": "NY", "income": 10})["income"], 10)
    equal(client.UpsertDocument(collection, {"id": "smith", "city": "NY", "income": 20})["income"], 20)

with program.operation("all documents are read in pages of one"):
    found = client.ReadDocuments(collection, {"maxItemCount": 1})
    equal(sorted(document["id"] for document in found), ["andersen", "smith", "wakefield"])

with program.operation("a query in one partition has a parameter and a join"):
    query = {
        "query": "SELECT f.id, c.grade FROM f JOIN c IN f.children WHERE c.grade > @grade",
        "parameters": [{"name": "@grade", "value": 4}],
    }
    equal(list(client.QueryDocuments(collection, query, {"partitionKey": "NY"})), [{"id": "wakefield", "grade": 8}])

with program.operation("a query without the permission to cross partitions is refused"):
    query = "SELECT VALUE f.id FROM f"
    refused = raises(errors.HTTPFailure, lambda: list(client.QueryDocuments(collection, query)))
    equal(refused.status_code, 400)

with program.operation("an ordered query crosses partitions and is merged by the client"):
    query = "SELECT VALUE f.id FROM f ORDER BY f.income DESC"
    options = {"enableCrossPartitionQuery": True, "maxItemCount": 1}
    equal(list(client.QueryDocuments(collection, query, options)), ["wakefield", "andersen", "smith"])

with program.operation("an aggregate crosses partitions"):
    options = {"enableCrossPartitionQuery": True}
    equal(list(client.QueryDocuments(collection, "SELECT VALUE SUM(f.income) FROM f", options)), [235])

with program.operation("the change feed of a partition key range has every document"):
    changed = []
    for key_range in client._ReadPartitionKeyRanges(collection):
        options = {"partitionKeyRangeId": key_range["id"], "isStartFromBeginning": True}
        changed += [document["id"] for document in client.QueryDocumentsChangeFeed(collection, options)]
    equal(sorted(changed), ["andersen", "smith", "wakefield"])

with program.operation("a stored procedure creates a document"):
    body = """function (name) {
        const context = getContext(), collection = context.getCollection();
        const accepted = collection.createDocument(collection.getSelfLink(), { id: name, city: "NY" },
            (error, created) => { if (error) throw error; context.getResponse().setBody(created.id); });
        if (!accepted) throw new Error("not accepted");
    }"""
    client.CreateStoredProcedure(collection, {"id": "add", "body": body})
    answer = client.ExecuteStoredProcedure(f"{collection}/sprocs/add", ["jones"], {"partitionKey": "NY"})
    equal(answer, "jones")

with program.operation("a user gets a permission, and its token reads the collection"):
    client.CreateUser(database, {"id": "reader"})
    resource = client.ReadCollection(collection)["_self"]
    asked = {"id": "read", "permissionMode": "Read", "resource": resource}
    permission = client.CreatePermission(f"{database}/users/reader", asked)
    reader = document_client.DocumentClient(ENDPOINT, {"permissionFeed": [permission]}, documents.ConnectionPolicy())
    equal(reader.ReadCollection(resource)["id"], "families")

with program.operation("the offer of the collection is found and replaced"):
    resource = client.ReadCollection(collection)["_self"]
    offer = next(offer for offer in client.ReadOffers() if offer["resource"] == resource)
    equal(offer["content"]["offerThroughput"], 11000)
    offer["content"]["offerThroughput"] = 12000
    equal(client.ReplaceOffer(offer["_self"], offer)["content"]["offerThroughput"], 12000)

with program.operation("documents, the collection and the database are deleted"):
    client.DeleteDocument(f"{collection}/docs/smith", {"partitionKey": "NY"})
    missing = raises(errors.HTTPFailure, client.ReadDocument, f"{collection}/docs/smith", {"partitionKey": "NY"})
    equal(missing.status_code, 404)
    client.DeleteCollection(collection)
    client.DeleteDatabase(database)
    equal([found for found in client.ReadDatabases() if found["id"] == program.database], [])

program.end()
