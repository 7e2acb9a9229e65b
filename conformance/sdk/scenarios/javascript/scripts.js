/** Stored procedures, triggers and user-defined functions. */

import { answerOf, pagesOf } from "./answers.js";

/** The operations that the three kinds of scripts share; `one` and `all` are the SDK's names of them. */
function kind(clients, name, one, all) {
  const scripts = (a) => clients.container(a).scripts;
  return {
    [`create_${name}`]: async (a) => answerOf(await scripts(a)[all].create(a.take("properties"))),
    [`read_${name}`]: async (a) => answerOf(await scripts(a)[one](a.take("id")).read()),
    [`replace_${name}`]: async (a) => answerOf(await scripts(a)[one](a.take("id")).replace(a.take("properties"))),
    [`delete_${name}`]: async (a) => answerOf(await scripts(a)[one](a.take("id")).delete()),
    [`list_${name}s`]: (a) => pagesOf(scripts(a)[all].readAll(a.feedOptions()), a),
    [`query_${name}s`]: (a) => pagesOf(scripts(a)[all].query(a.query(), a.feedOptions()), a),
  };
}

export function scripts(clients) {
  return {
    ...kind(clients, "stored_procedure", "storedProcedure", "storedProcedures"),
    ...kind(clients, "trigger", "trigger", "triggers"),
    ...kind(clients, "user_defined_function", "userDefinedFunction", "userDefinedFunctions"),
    async execute_stored_procedure(a) {
      const procedure = clients.container(a).scripts.storedProcedure(a.take("id"));
      const options = { enableScriptLogging: a.take("log") ?? false };
      return answerOf(await procedure.execute(a.partitionKey(), a.take("arguments") ?? [], options));
    },
  };
}
