// The state store of Dapr (state.azure.cosmosdb 1.18.0) replayed: its calls of azcosmos, its policy, its form of items.
//
// Read from state/azure/cosmosdb of dapr/components-contrib, commit c23900d. Its own module is not built here, because
// the module proxy does not offer it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

const sdk = "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

var (
	failed bool
	ctx    = context.Background()
)

// state is an item as the store writes it.
type state struct {
	ID           string `json:"id"`
	Value        any    `json:"value"`
	IsBinary     bool   `json:"isBinary"`
	PartitionKey string `json:"partitionKey"`
	TTL          *int   `json:"ttl,omitempty"`
	Etag         string `json:"_etag"`
	TS           int64  `json:"_ts"`
}

// acrossPartitions takes the partition key of a query away that stands for none.
type acrossPartitions struct{}

func (acrossPartitions) Do(request *policy.Request) (*http.Response, error) {
	headers := request.Raw().Header
	isQuery := strings.EqualFold(headers.Get("x-ms-documentdb-query"), "true")
	if isQuery && headers.Get("x-ms-documentdb-partitionkey") == "[true]" {
		headers.Add("x-ms-documentdb-query-enablecrosspartition", "true")
		headers.Del("x-ms-documentdb-partitionkey")
	}
	return request.Next()
}

func main() {
	say(map[string]any{"client": sdk, "version": versionOf(sdk)})
	store, err := open()
	operation("the store opens its container, which it does not create itself", func() error { return err })
	if err == nil {
		run(store)
	}
	say(map[string]any{"end": true})
	if failed {
		os.Exit(1)
	}
}

func run(store *azcosmos.ContainerClient) {
	operation("a value is set, and got with its etag", func() error {
		if err := set(store, "a", map[string]string{"color": "red"}, nil, nil); err != nil {
			return err
		}
		found, err := get(store, "a")
		if err != nil || found.Etag == "" {
			return fmt.Errorf("got %+v: %w", found, err)
		}
		return set(store, "a", "new", nil, &found.Etag)
	})
	operation("a stale etag is a mismatch, and so is a first write over a value", func() error {
		stale := "\"00000000-0000-0000-0000-000000000000\""
		if err := set(store, "a", "never", nil, &stale); statusOf(err) != http.StatusPreconditionFailed {
			return fmt.Errorf("not 412: %w", err)
		}
		bare := "2f1e6b1c-0f38-4b0c-8a7e-0d6f5a9e2b11"
		if err := set(store, "a", "never", nil, &bare); statusOf(err) != http.StatusPreconditionFailed {
			return fmt.Errorf("not 412: %w", err)
		}
		return nil
	})
	operation("a value that is not there is nothing, and its deletion is no error", func() error {
		if _, err := get(store, "none"); statusOf(err) != http.StatusNotFound {
			return fmt.Errorf("not 404: %w", err)
		}
		_, err := store.DeleteItem(ctx, azcosmos.NewPartitionKeyString("none"), "none", nil)
		if statusOf(err) != http.StatusNotFound {
			return fmt.Errorf("not 404: %w", err)
		}
		return nil
	})
	operation("a value with a time to live expires", func() error { return expires(store) })
	operation("many values are got by one query across partitions", func() error { return manyAreGot(store) })
	operation("a query sorts and filters values by pages", func() error { return queried(store) })
	operation("a transaction sets and deletes in one partition", func() error { return transaction(store) })
}

func open() (*azcosmos.ContainerClient, error) {
	credential, err := azcosmos.NewKeyCredential(os.Getenv("ORRERY_KEY"))
	if err != nil {
		return nil, err
	}
	options := azcosmos.ClientOptions{ClientOptions: policy.ClientOptions{
		PerCallPolicies: []policy.Policy{acrossPartitions{}},
		Telemetry:       policy.TelemetryOptions{ApplicationID: "dapr-1.18.0"},
	}}
	client, err := azcosmos.NewClientWithKey(os.Getenv("ORRERY_ENDPOINT"), credential, &options)
	if err != nil {
		return nil, err
	}
	// The operator makes these before the store starts.
	name := fmt.Sprintf("clients-%d", time.Now().UnixNano())
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: name}, nil); err != nil {
		return nil, err
	}
	database, err := client.NewDatabase(name)
	if err != nil {
		return nil, err
	}
	ttl := int32(-1)
	properties := azcosmos.ContainerProperties{
		ID:                     "state",
		DefaultTimeToLive:      &ttl,
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/partitionKey"}},
	}
	if _, err := database.CreateContainer(ctx, properties, nil); err != nil {
		return nil, err
	}
	store, err := database.NewContainer("state")
	if err != nil {
		return nil, err
	}
	_, err = store.Read(ctx, nil)
	return store, err
}

func set(store *azcosmos.ContainerClient, key string, value any, ttl *int, etag *string) error {
	text, err := json.Marshal(state{ID: key, Value: value, PartitionKey: key, TTL: ttl})
	if err != nil {
		return err
	}
	options := azcosmos.ItemOptions{ConsistencyLevel: azcosmos.ConsistencyLevelSession.ToPtr()}
	if etag != nil {
		tag := azcore.ETag(*etag)
		options.IfMatchEtag = &tag
	}
	_, err = store.UpsertItem(ctx, azcosmos.NewPartitionKeyString(key), text, &options)
	return err
}

func get(store *azcosmos.ContainerClient, key string) (state, error) {
	options := azcosmos.ItemOptions{ConsistencyLevel: azcosmos.ConsistencyLevelEventual.ToPtr()}
	answer, err := store.ReadItem(ctx, azcosmos.NewPartitionKeyString(key), key, &options)
	if err != nil {
		return state{}, err
	}
	var found state
	return found, json.Unmarshal(answer.Value, &found)
}

func expires(store *azcosmos.ContainerClient) error {
	second := 1
	if err := set(store, "short", "lived", &second, nil); err != nil {
		return err
	}
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if _, err := get(store, "short"); statusOf(err) == http.StatusNotFound {
			return nil
		}
	}
	return errors.New("the value is still there after 20 s")
}

func manyAreGot(store *azcosmos.ContainerClient) error {
	keys := []string{"m1", "m2", "m3"}
	for _, key := range keys {
		if err := set(store, key, key, nil, nil); err != nil {
			return err
		}
	}
	parameters := []azcosmos.QueryParameter{{Name: "@keys", Value: append(keys, "none")}}
	found, err := pages(store, "SELECT * FROM r WHERE ARRAY_CONTAINS(@keys, r.id)", parameters, 0)
	if err == nil && len(found) != 3 {
		return fmt.Errorf("found %d", len(found))
	}
	return err
}

func queried(store *azcosmos.ContainerClient) error {
	for _, name := range []string{"ada", "bob", "cyd"} {
		value := map[string]any{"person": map[string]any{"name": name, "org": "lab"}, "state": "CA"}
		if err := set(store, name, value, nil, nil); err != nil {
			return err
		}
	}
	text := "SELECT * FROM c WHERE c['value']['person']['org'] = @__param__0__ AND " +
		"(c['value']['state'] = @__param__1__ OR c['value']['state'] IN (@__param__2__))"
	parameters := []azcosmos.QueryParameter{
		{Name: "@__param__0__", Value: "lab"}, {Name: "@__param__1__", Value: "CA"}, {Name: "@__param__2__", Value: "WA"},
	}
	found, err := pages(store, text, parameters, 2)
	if err == nil && len(found) != 3 {
		return fmt.Errorf("found %d", len(found))
	}
	return err
}

// pages returns all items of a query that has no partition key.
func pages(store *azcosmos.ContainerClient, text string, parameters []azcosmos.QueryParameter, size int32) ([]state, error) {
	options := azcosmos.QueryOptions{QueryParameters: parameters, PageSizeHint: size}
	pager := store.NewQueryItemsPager(text, azcosmos.NewPartitionKeyBool(true), &options)
	var all []state
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			var found state
			if err := json.Unmarshal(item, &found); err != nil {
				return nil, err
			}
			all = append(all, found)
		}
	}
	return all, nil
}

func transaction(store *azcosmos.ContainerClient) error {
	batch := store.NewTransactionalBatch(azcosmos.NewPartitionKeyString("group"))
	for _, key := range []string{"t1", "t2"} {
		text, err := json.Marshal(state{ID: key, Value: key, PartitionKey: "group"})
		if err != nil {
			return err
		}
		batch.UpsertItem(text, &azcosmos.TransactionalBatchItemOptions{})
	}
	done, err := store.ExecuteTransactionalBatch(ctx, batch, nil)
	if err != nil || !done.Success {
		return fmt.Errorf("not done: %+v %w", done.OperationResults, err)
	}
	// The deletion of a value that is not there fails a transaction, which the store tells by the results.
	batch = store.NewTransactionalBatch(azcosmos.NewPartitionKeyString("group"))
	batch.DeleteItem("t1", &azcosmos.TransactionalBatchItemOptions{})
	batch.DeleteItem("none", &azcosmos.TransactionalBatchItemOptions{})
	done, err = store.ExecuteTransactionalBatch(ctx, batch, nil)
	if err != nil {
		return err
	}
	codes := [2]int32{done.OperationResults[0].StatusCode, done.OperationResults[1].StatusCode}
	if done.Success || codes != [2]int32{http.StatusFailedDependency, http.StatusNotFound} {
		return fmt.Errorf("the results are %v", codes)
	}
	return nil
}

func statusOf(err error) int {
	var refused *azcore.ResponseError
	if errors.As(err, &refused) {
		return refused.StatusCode
	}
	return 0
}

// operation runs one operation and reports it.
func operation(name string, work func() error) {
	line := map[string]any{"operation": name, "passed": true}
	if err := work(); err != nil {
		failed = true
		line["passed"], line["message"] = false, err.Error()
	}
	say(line)
}

// say writes a line of the report. See conformance/lib/programs/report.py.
func say(line map[string]any) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

// versionOf returns the version of a module that this program was built with.
func versionOf(path string) string {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == path {
			return module.Version
		}
	}
	return ""
}
