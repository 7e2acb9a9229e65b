/** @langchain/azure-cosmosdb: the vector store and its searches, the chat history, the cache of answers. */

import assert from "node:assert/strict";

import {
  AzureCosmosDBNoSQLSemanticCache,
  AzureCosmosDBNoSQLVectorStore,
  AzureCosmsosDBNoSQLChatMessageHistory,
} from "@langchain/azure-cosmosdb";
import { Document } from "@langchain/core/documents";
import { Embeddings } from "@langchain/core/embeddings";
import { AIMessage, HumanMessage } from "@langchain/core/messages";

import { Program, endpoint, key } from "../../../lib/operations/operations.cjs";
import { TEXTS, vector } from "../shared/words.mjs";

class Words extends Embeddings {
  constructor() {
    super({});
  }

  async embedDocuments(texts) {
    return texts.map(vector);
  }

  async embedQuery(text) {
    return vector(text);
  }
}

const program = new Program("@langchain/azure-cosmosdb");
const connectionString = `AccountEndpoint=${endpoint};AccountKey=${key};`;
// Two physical partitions, whose rows the client merges.
const createContainerOptions = { throughput: 12000 };
const place = (containerName) => ({ connectionString, databaseName: program.database, containerName, createContainerOptions });
const documents = TEXTS.map((pageContent, page) => new Document({ pageContent, metadata: { page }, id: `text-${page}` }));
const texts = (found) => found.map((document) => document.pageContent);
let store;

await program.operation("a vector store is created from documents, with its database and container", async () => {
  store = await AzureCosmosDBNoSQLVectorStore.fromDocuments(documents, new Words(), place("vectors"));
});

await program.operation("a search finds the nearest texts with their metadata", async () => {
  const found = await store.similaritySearch("soup from the kitchen", 2);
  assert.deepEqual([found[0].pageContent, found[0].metadata.page, found.length], [TEXTS[2], 2, 2]);
});

await program.operation("scores fall from the nearest text to the farthest", async () => {
  const found = await store.similaritySearchWithScore("animals cats dogs", 5);
  const scores = found.map(([, score]) => score);
  assert.equal(found[0][0].pageContent, TEXTS[0]);
  assert.deepEqual(scores, scores.toSorted((a, b) => b - a));
});

await program.operation("a search has a condition with a parameter", async () => {
  const filterClause = {
    query: "WHERE c.metadata.page > @page",
    parameters: [{ name: "@page", value: 0 }],
  };
  const found = await store.similaritySearch("dogs", 9, { filterClause });
  assert.deepEqual([found[0].pageContent, found.length], [TEXTS[4], 4]);
});

await program.operation("a search returns the vectors, if asked", async () => {
  const [found] = await store.similaritySearch("sea", 1, { includeEmbeddings: true });
  assert.deepEqual(found.metadata.vector, vector(TEXTS[3]));
});

await program.operation("a search for marginal relevance spreads its results", async () => {
  const found = await store.maxMarginalRelevanceSearch("dogs and cats", { k: 3, fetchK: 5, lambda: 0.1 });
  assert.equal(new Set(texts(found)).size, 3);
});

await program.operation("a retriever answers with documents", async () => {
  assert.deepEqual(texts(await store.asRetriever({ k: 1 }).invoke("an engine")), [TEXTS[1]]);
});

await program.operation("a second store opens the container that is there", async () => {
  const second = new AzureCosmosDBNoSQLVectorStore(new Words(), place("vectors"));
  assert.deepEqual(texts(await second.similaritySearch("a ship", 1)), [TEXTS[3]]);
});

await program.operation("documents are deleted by id, by a query, and all", async () => {
  await store.delete({ ids: ["text-0", "text-1"] });
  assert.equal((await store.similaritySearch("dogs", 9)).length, 3);
  const query = "SELECT c.id FROM c WHERE c.metadata.page = @page";
  await store.delete({ filter: { query, parameters: [{ name: "@page", value: 2 }] } });
  assert.equal((await store.similaritySearch("dogs", 9)).length, 2);
  await store.delete();
  assert.equal((await store.similaritySearch("dogs", 9)).length, 0);
});

await program.operation("a chat history is kept for its session", async () => {
  const session = { ...place("history"), sessionId: "one", userId: "ann" };
  const history = new AzureCosmsosDBNoSQLChatMessageHistory(session);
  await history.addMessage(new HumanMessage("hello"));
  await history.addMessage(new AIMessage("good day"));
  await history.setContext({ title: "greetings" });
  const again = new AzureCosmsosDBNoSQLChatMessageHistory(session);
  assert.deepEqual((await again.getMessages()).map((message) => message.content), ["hello", "good day"]);
  assert.deepEqual(await again.getContext(), { title: "greetings" });
});

await program.operation("the sessions of a user are listed and cleared", async () => {
  const second = new AzureCosmsosDBNoSQLChatMessageHistory({ ...place("history"), sessionId: "two", userId: "ann" });
  await second.addMessage(new HumanMessage("hello"));
  assert.deepEqual((await second.getAllSessions()).map((session) => session.id).sort(), ["one", "two"]);
  await second.clear();
  assert.deepEqual((await second.getAllSessions()).map((session) => session.id), ["one"]);
  await second.clearAllSessions();
  assert.deepEqual(await second.getAllSessions(), []);
});

await program.operation("answers are cached by the nearness of their questions", async () => {
  const cache = new AzureCosmosDBNoSQLSemanticCache(new Words(), place("answers"), 0.9);
  await cache.update("what do cats eat", "model", [{ text: "mice" }]);
  assert.equal((await cache.lookup("what do cats eat", "model"))[0].text, "mice");
  assert.equal(await cache.lookup("ship", "model"), null);
  await cache.clear("model");
  assert.equal(await cache.lookup("what do cats eat", "model"), null);
});

program.end();
