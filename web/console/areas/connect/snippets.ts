/** Short programs that reach the account: one for each SDK, and one for a shell.
 *
 * Each lists the databases and prints the charge. The key comes from the variable `COSMOS_KEY`, so no
 * program text holds a key.
 * Leaves out: the code of a query, which the query page copies. */

export const LANGUAGES = [
  ["python", "Python"],
  ["javascript", "JavaScript"],
  ["java", "Java"],
  ["csharp", "C#"],
  ["go", "Go"],
  ["rust", "Rust"],
  ["shell", "Shell"],
] as const;

export type Language = (typeof LANGUAGES)[number][0];

/** The key that every emulator of the service has; public, and the default of `orrery start`. */
export const WELL_KNOWN_KEY =
  "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/** Returns the endpoint with another scheme; the port accepts both. */
export function withScheme(endpoint: string, scheme: "http" | "https"): string {
  return endpoint.replace(/^https?:/, `${scheme}:`).replace(/\/$/, "");
}

const INSTALL: Readonly<Record<Language, string>> = {
  python: "pip install azure-cosmos",
  javascript: "npm install @azure/cosmos",
  java: "com.azure:azure-cosmos",
  csharp: "dotnet add package Microsoft.Azure.Cosmos",
  go: "go get github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos",
  rust: "cargo add azure_data_cosmos futures serde_json tokio",
  shell: "curl and openssl",
};

/** Returns how the library of a language is installed. */
export function installation(language: Language): string {
  return INSTALL[language];
}

/** Returns the program for an endpoint. */
export function snippet(language: Language, endpoint: string): string {
  const http = withScheme(endpoint, "http");
  const https = withScheme(endpoint, "https");
  return PROGRAMS[language](http, https);
}

type Program = (http: string, https: string) => string;

const python: Program = (http) => `import os
from azure.cosmos import CosmosClient

client = CosmosClient("${http}", os.environ["COSMOS_KEY"])
for database in client.list_databases():
    print(database["id"])
print(client.client_connection.last_response_headers["x-ms-request-charge"], "RU")
`;

const javascript: Program = (http) => `import { CosmosClient } from "@azure/cosmos";

const client = new CosmosClient({ endpoint: "${http}", key: process.env.COSMOS_KEY });
const { resources, requestCharge } = await client.databases.readAll().fetchAll();
console.log(resources.map(({ id }) => id), requestCharge, "RU");
`;

const java: Program = (_, https) => `import com.azure.cosmos.*;

// The certificate is the server's own; remove this line once the JVM trusts it.
System.setProperty("COSMOS.EMULATOR_SERVER_CERTIFICATE_VALIDATION_DISABLED", "true");
CosmosClient client = new CosmosClientBuilder()
    .endpoint("${https}")
    .key(System.getenv("COSMOS_KEY"))
    .gatewayMode()
    .buildClient();
client.readAllDatabases().forEach(database -> System.out.println(database.getId()));
`;

const csharp: Program = (_, https) => `using Microsoft.Azure.Cosmos;

var options = new CosmosClientOptions
{
    ConnectionMode = ConnectionMode.Gateway,
    // The certificate is the server's own; remove this line once the system trusts it.
    ServerCertificateCustomValidationCallback = (_, _, _) => true,
};
using var client = new CosmosClient("${https}", Environment.GetEnvironmentVariable("COSMOS_KEY"), options);
using var feed = client.GetDatabaseQueryIterator<DatabaseProperties>();
while (feed.HasMoreResults)
{
    var page = await feed.ReadNextAsync();
    foreach (var database in page) Console.WriteLine(database.Id);
    Console.WriteLine($"{page.RequestCharge} RU");
}
`;

const go: Program = (http) => `package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func main() {
	key, err := azcosmos.NewKeyCredential(os.Getenv("COSMOS_KEY"))
	if err != nil {
		log.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey("${http}", key, nil)
	if err != nil {
		log.Fatal(err)
	}
	pager := client.NewQueryDatabasesPager("SELECT * FROM c", nil)
	for pager.More() {
		page, err := pager.NextPage(context.TODO())
		if err != nil {
			log.Fatal(err)
		}
		for _, database := range page.Databases {
			fmt.Println(database.ID)
		}
		fmt.Println(page.RequestCharge, "RU")
	}
}
`;

const rust: Program = (http) => `use azure_data_cosmos::{AccountReference, CosmosClient, Query, RoutingStrategy};
use futures::StreamExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let key = std::env::var("COSMOS_KEY")?;
    let account = AccountReference::with_authentication_key("${http}".parse()?, key);
    let client = CosmosClient::builder()
        .build(account, RoutingStrategy::PreferredRegions(Vec::new()))
        .await?;
    let mut pages = client
        .query_databases::<serde_json::Value>(Query::from("SELECT * FROM c"), None)
        .await?
        .into_pages();
    while let Some(page) = pages.next().await {
        for database in page?.items() {
            println!("{}", database["id"]);
        }
    }
    Ok(())
}
`;

const shell: Program = (http) => `date=$(LC_ALL=C TZ=GMT date '+%a, %d %b %Y %H:%M:%S GMT')
key=$(printf '%s' "$COSMOS_KEY" | base64 -d | od -An -v -tx1 | tr -d ' \\n')
signature=$(printf 'get\\ndbs\\n\\n%s\\n\\n' "$(printf '%s' "$date" | tr 'A-Z' 'a-z')" |
  openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64 |
  sed 's/+/%2B/g; s#/#%2F#g; s/=/%3D/g')
curl -sS -i "${http}/dbs" \\
  -H "x-ms-date: $date" -H "x-ms-version: 2020-07-15" \\
  -H "authorization: type%3Dmaster%26ver%3D1.0%26sig%3D$signature"
`;

const PROGRAMS: Readonly<Record<Language, Program>> = { python, javascript, java, csharp, go, rust, shell };
