package main

import (
	"context"
	"encoding/json"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

type operation = func(*driver, context.Context, *arguments) (*answer, error)

// Each operation of the table that azcosmos has a method for.
var operations = map[string]operation{
	"connect":                      (*driver).connect,
	"create_database":              (*driver).createDatabase,
	"read_database":                (*driver).readDatabase,
	"delete_database":              (*driver).deleteDatabase,
	"query_databases":              (*driver).queryDatabases,
	"create_container":             (*driver).createContainer,
	"read_container":               (*driver).readContainer,
	"replace_container":            (*driver).replaceContainer,
	"delete_container":             (*driver).deleteContainer,
	"query_containers":             (*driver).queryContainers,
	"read_database_throughput":     (*driver).readDatabaseThroughput,
	"replace_database_throughput":  (*driver).replaceDatabaseThroughput,
	"read_container_throughput":    (*driver).readContainerThroughput,
	"replace_container_throughput": (*driver).replaceContainerThroughput,
	"create_item":                  (*driver).createItem,
	"read_item":                    (*driver).readItem,
	"upsert_item":                  (*driver).upsertItem,
	"replace_item":                 (*driver).replaceItem,
	"delete_item":                  (*driver).deleteItem,
	"patch_item":                   (*driver).patchItem,
	"read_many_items":              (*driver).readManyItems,
	"query_items":                  (*driver).queryItems,
	"batch":                        (*driver).batch,
	"read_feed_ranges":             (*driver).readFeedRanges,
	"change_feed":                  (*driver).changeFeed,
}

func connect(endpoint, key string, options *azcosmos.ClientOptions) (*azcosmos.Client, error) {
	credential, err := azcosmos.NewKeyCredential(key)
	if err != nil {
		return nil, err
	}
	return azcosmos.NewClientWithKey(endpoint, credential, options)
}

// connect puts another client in the place of the usual one, until the scenario ends.
func (d *driver) connect(_ context.Context, a *arguments) (*answer, error) {
	options := &azcosmos.ClientOptions{PreferredRegions: get[[]string](a, "preferred_regions")}
	if a.has("no_response") {
		options.EnableContentResponseOnWrite = !get[bool](a, "no_response")
	}
	quiet := get[bool](a, "no_response")
	key := d.key
	if a.has("key") {
		key = get[string](a, "key")
	}
	var client *azcosmos.Client
	var err error
	if get[bool](a, "connection_string") {
		d.reach("NewClientFromConnectionString")
		client, err = azcosmos.NewClientFromConnectionString("AccountEndpoint="+d.endpoint+";AccountKey="+key, options)
	} else {
		client, err = connect(d.endpoint, key, options)
	}
	if err != nil {
		return nil, err
	}
	d.reset()
	d.client, d.quiet = client, quiet
	d.reach("Client.Endpoint")
	return &answer{Status: 200, Body: map[string]string{"endpoint": client.Endpoint()}}, nil
}

func (d *driver) database(a *arguments) (*azcosmos.DatabaseClient, error) {
	d.reach("Client.NewDatabase")
	return d.client.NewDatabase(get[string](a, "database"))
}

// container finds it by way of its database, or straight from the client, in turns: both are public.
func (d *driver) container(a *arguments) (*azcosmos.ContainerClient, error) {
	name := get[string](a, "container")
	d.throughDatabase = !d.throughDatabase
	if d.throughDatabase {
		database, err := d.database(a)
		if err != nil {
			return nil, err
		}
		d.reach("DatabaseClient.NewContainer")
		return database.NewContainer(name)
	}
	d.reach("Client.NewContainer")
	return d.client.NewContainer(get[string](a, "database"), name)
}

func (d *driver) createDatabase(ctx context.Context, a *arguments) (*answer, error) {
	d.reach("Client.CreateDatabase")
	properties := azcosmos.DatabaseProperties{ID: get[string](a, "database")}
	options := &azcosmos.CreateDatabaseOptions{ThroughputProperties: d.throughput(a)}
	created, err := d.client.CreateDatabase(ctx, properties, options)
	return withBody(created.RawResponse, created.DatabaseProperties), err
}

func (d *driver) readDatabase(ctx context.Context, a *arguments) (*answer, error) {
	database, err := d.database(a)
	if err != nil {
		return nil, err
	}
	d.reach("DatabaseClient.Read")
	read, err := database.Read(ctx, &azcosmos.ReadDatabaseOptions{
		IfMatchEtag: a.etag("if_match"), IfNoneMatchEtag: a.etag("if_none_match"),
	})
	return withBody(read.RawResponse, read.DatabaseProperties), err
}

func (d *driver) deleteDatabase(ctx context.Context, a *arguments) (*answer, error) {
	database, err := d.database(a)
	if err != nil {
		return nil, err
	}
	d.reach("DatabaseClient.Delete")
	deleted, err := database.Delete(ctx, &azcosmos.DeleteDatabaseOptions{
		IfMatchEtag: a.etag("if_match"), IfNoneMatchEtag: a.etag("if_none_match"),
	})
	return answerOf(deleted.RawResponse), err
}

func (d *driver) queryDatabases(ctx context.Context, a *arguments) (*answer, error) {
	d.reach("Client.NewQueryDatabasesPager")
	pager := d.client.NewQueryDatabasesPager(get[string](a, "query"), &azcosmos.QueryDatabasesOptions{
		QueryParameters: parameters(a), ContinuationToken: pointer[string](a, "continuation"),
	})
	return pages(ctx, a, pager, func(page azcosmos.QueryDatabasesResponse) (*answer, []json.RawMessage, error) {
		items, err := encoded(page.Databases)
		return answerOf(page.RawResponse), items, err
	})
}

func (d *driver) createContainer(ctx context.Context, a *arguments) (*answer, error) {
	database, err := d.database(a)
	if err != nil {
		return nil, err
	}
	d.reach("DatabaseClient.CreateContainer")
	options := &azcosmos.CreateContainerOptions{ThroughputProperties: d.throughput(a)}
	created, err := database.CreateContainer(ctx, get[azcosmos.ContainerProperties](a, "properties"), options)
	return withBody(created.RawResponse, created.ContainerProperties), err
}

func (d *driver) readContainer(ctx context.Context, a *arguments) (*answer, error) {
	container, err := d.container(a)
	if err != nil {
		return nil, err
	}
	d.reach("ContainerClient.Read")
	read, err := container.Read(ctx, &azcosmos.ReadContainerOptions{PopulateQuotaInfo: get[bool](a, "quota")})
	return withBody(read.RawResponse, read.ContainerProperties), err
}

func (d *driver) replaceContainer(ctx context.Context, a *arguments) (*answer, error) {
	container, err := d.container(a)
	if err != nil {
		return nil, err
	}
	d.reach("ContainerClient.Replace")
	replaced, err := container.Replace(ctx, get[azcosmos.ContainerProperties](a, "properties"), nil)
	return withBody(replaced.RawResponse, replaced.ContainerProperties), err
}

func (d *driver) deleteContainer(ctx context.Context, a *arguments) (*answer, error) {
	container, err := d.container(a)
	if err != nil {
		return nil, err
	}
	d.reach("ContainerClient.Delete")
	deleted, err := container.Delete(ctx, nil)
	return answerOf(deleted.RawResponse), err
}

func (d *driver) queryContainers(ctx context.Context, a *arguments) (*answer, error) {
	database, err := d.database(a)
	if err != nil {
		return nil, err
	}
	d.reach("DatabaseClient.NewQueryContainersPager")
	pager := database.NewQueryContainersPager(get[string](a, "query"), &azcosmos.QueryContainersOptions{
		QueryParameters: parameters(a), ContinuationToken: pointer[string](a, "continuation"),
	})
	return pages(ctx, a, pager, func(page azcosmos.QueryContainersResponse) (*answer, []json.RawMessage, error) {
		items, err := encoded(page.Containers)
		return answerOf(page.RawResponse), items, err
	})
}

func (d *driver) readDatabaseThroughput(ctx context.Context, a *arguments) (*answer, error) {
	database, err := d.database(a)
	if err != nil {
		return nil, err
	}
	d.reach("DatabaseClient.ReadThroughput")
	read, err := database.ReadThroughput(ctx, nil)
	return d.offer(read), err
}

func (d *driver) replaceDatabaseThroughput(ctx context.Context, a *arguments) (*answer, error) {
	database, err := d.database(a)
	if err != nil {
		return nil, err
	}
	d.reach("DatabaseClient.ReplaceThroughput")
	replaced, err := database.ReplaceThroughput(ctx, *d.throughput(a), nil)
	return d.offer(replaced), err
}

func (d *driver) readContainerThroughput(ctx context.Context, a *arguments) (*answer, error) {
	container, err := d.container(a)
	if err != nil {
		return nil, err
	}
	d.reach("ContainerClient.ReadThroughput")
	read, err := container.ReadThroughput(ctx, nil)
	return d.offer(read), err
}

func (d *driver) replaceContainerThroughput(ctx context.Context, a *arguments) (*answer, error) {
	container, err := d.container(a)
	if err != nil {
		return nil, err
	}
	d.reach("ContainerClient.ReplaceThroughput")
	replaced, err := container.ReplaceThroughput(ctx, *d.throughput(a), nil)
	return d.offer(replaced), err
}

// offer is what the SDK understood of an offer: RU/s, or the most of autoscale.
func (d *driver) offer(response azcosmos.ThroughputResponse) *answer {
	body := map[string]int32{}
	if offer := response.ThroughputProperties; offer != nil {
		d.reach("ThroughputProperties.ManualThroughput", "ThroughputProperties.AutoscaleMaxThroughput",
			"ThroughputProperties.AutoscaleIncrement")
		if manual, is := offer.ManualThroughput(); is {
			body["throughput"] = manual
		}
		if most, is := offer.AutoscaleMaxThroughput(); is {
			body["autoscale_max"] = most
		}
		if increment, is := offer.AutoscaleIncrement(); is {
			body["increment"] = increment
		}
	}
	if response.MinThroughput != nil {
		body["minimum"] = *response.MinThroughput
	}
	return withBody(response.RawResponse, body)
}

// pages walks a pager to its end, or as many pages as the step asks for.
func pages[P any](
	ctx context.Context, a *arguments, pager *runtime.Pager[P],
	of func(P) (*answer, []json.RawMessage, error),
) (*answer, error) {
	most := pointer[int](a, "max_pages")
	reply := &answer{}
	var sizes []int
	var items []json.RawMessage
	for pager.More() && (most == nil || len(sizes) < *most) {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		found, more, err := of(page)
		if err != nil {
			return nil, err
		}
		reply, sizes, items = found, append(sizes, len(more)), append(items, more...)
	}
	reply.Items, reply.Pages = items, sizes
	return reply, nil
}

// encoded is each value as JSON.
func encoded[T any](values []T) ([]json.RawMessage, error) {
	items := make([]json.RawMessage, 0, len(values))
	for _, value := range values {
		item, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}
