/** Databases, containers, their throughput, users and permissions. */

import { answerOf, pagesOf } from "./answers.js";

/** Returns the answer about an offer: RU/s, or the maximum of autoscale; empty without an offer. */
function offerOf(response) {
  if (!response.resource) return { status: 404, headers: response.headers };
  const { content } = response.resource;
  const most = content.offerAutopilotSettings?.maxThroughput;
  return answerOf(response, most ? { autoscale_max: most } : { throughput: content.offerThroughput });
}

/** Reads the offer of an owner, changes it and writes it back, as this SDK requires. */
async function replaceOffer(client, owner, a) {
  const wanted = a.throughput();
  const { resource } = await owner.readOffer();
  if (!resource) return { status: 404, headers: {} };
  if (wanted.throughput) resource.content.offerThroughput = wanted.throughput;
  if (wanted.maxThroughput) resource.content.offerAutopilotSettings.maxThroughput = wanted.maxThroughput;
  return offerOf(await client.offer(resource.id).replace(resource));
}

export function resources(clients) {
  const permission = (a) => clients.database(a).user(a.take("user")).permission(a.take("id"));
  const permissions = (a) => clients.database(a).user(a.take("user")).permissions;
  const user = (a) => clients.database(a).user(a.take("id"));
  return {
    async create_database(a) {
      return answerOf(await clients.client().databases.create({ id: a.take("database"), ...a.throughput() }));
    },
    async create_database_if_not_exists(a) {
      return answerOf(await clients.client().databases.createIfNotExists({ id: a.take("database"), ...a.throughput() }));
    },
    read_database: async (a) => answerOf(await clients.database(a).read(a.options())),
    delete_database: async (a) => answerOf(await clients.database(a).delete(a.options())),
    list_databases: (a) => pagesOf(clients.client().databases.readAll(a.feedOptions()), a),
    query_databases: (a) => pagesOf(clients.client().databases.query(a.query(), a.feedOptions()), a),

    async create_container(a) {
      const database = clients.database(a);
      return answerOf(await database.containers.create({ ...a.take("properties"), ...a.throughput() }));
    },
    async create_container_if_not_exists(a) {
      const database = clients.database(a);
      return answerOf(await database.containers.createIfNotExists({ ...a.take("properties"), ...a.throughput() }));
    },
    async read_container(a) {
      return answerOf(await clients.container(a).read({ populateQuotaInfo: a.take("quota") ?? false }));
    },
    async replace_container(a) {
      return answerOf(await clients.container(a).replace(a.take("properties"), a.options()));
    },
    delete_container: async (a) => answerOf(await clients.container(a).delete(a.options())),
    list_containers: (a) => pagesOf(clients.database(a).containers.readAll(a.feedOptions()), a),
    query_containers: (a) => pagesOf(clients.database(a).containers.query(a.query(), a.feedOptions()), a),

    read_database_throughput: async (a) => offerOf(await clients.database(a).readOffer()),
    replace_database_throughput: (a) => replaceOffer(clients.client(), clients.database(a), a),
    read_container_throughput: async (a) => offerOf(await clients.container(a).readOffer()),
    replace_container_throughput: (a) => replaceOffer(clients.client(), clients.container(a), a),

    create_user: async (a) => answerOf(await clients.database(a).users.create(a.take("properties"))),
    upsert_user: async (a) => answerOf(await clients.database(a).users.upsert(a.take("properties"))),
    read_user: async (a) => answerOf(await user(a).read()),
    replace_user: async (a) => answerOf(await user(a).replace(a.take("properties"))),
    delete_user: async (a) => answerOf(await user(a).delete()),
    list_users: (a) => pagesOf(clients.database(a).users.readAll(a.feedOptions()), a),
    query_users: (a) => pagesOf(clients.database(a).users.query(a.query(), a.feedOptions()), a),

    create_permission: async (a) => answerOf(await permissions(a).create(a.take("properties"))),
    upsert_permission: async (a) => answerOf(await permissions(a).upsert(a.take("properties"))),
    async read_permission(a) {
      const seconds = a.take("expiry_seconds");
      return answerOf(await permission(a).read(seconds ? { resourceTokenExpirySeconds: seconds } : {}));
    },
    replace_permission: async (a) => answerOf(await permission(a).replace(a.take("properties"))),
    delete_permission: async (a) => answerOf(await permission(a).delete()),
    list_permissions: (a) => pagesOf(permissions(a).readAll(a.feedOptions()), a),
    query_permissions: (a) => pagesOf(permissions(a).query(a.query(), a.feedOptions()), a),
  };
}
