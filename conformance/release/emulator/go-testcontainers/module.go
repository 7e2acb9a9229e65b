// The module of Testcontainers for Go as its documentation uses it, and its own test.
// A module of its own, built by `cargo xtask conformance emulator`.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/azure/cosmosdb"
)

const modulePath = "github.com/testcontainers/testcontainers-go/modules/azure"

var (
	image  = os.Getenv("ORRERY_IMAGE")
	failed bool
)

func main() {
	say(map[string]any{"client": modulePath, "version": versionOf(modulePath)})
	operation("the module's policy pins the client, which writes, reads and queries", withPolicy)
	operation("the client of the connection string needs no policy", snippet)
	operation("a command of the user's is added to the module's", withExplorer)
	say(map[string]any{"end": true})
	if failed {
		os.Exit(1)
	}
}

func withPolicy() error {
	ctx := context.Background()
	emulator, err := cosmosdb.Run(ctx, image)
	defer testcontainers.TerminateContainer(emulator)
	if err != nil {
		return err
	}
	text, err := emulator.ConnectionString(ctx)
	if err != nil {
		return err
	}
	policy, err := cosmosdb.NewContainerPolicy(ctx, emulator)
	if err != nil {
		return err
	}
	client, err := azcosmos.NewClientFromConnectionString(text, policy.ClientOptions())
	if err != nil {
		return err
	}
	return storesAndFinds(ctx, client)
}

func withExplorer() error {
	ctx := context.Background()
	emulator, err := cosmosdb.Run(ctx, image, testcontainers.WithEnv(map[string]string{"PROTOCOL": "http"}))
	defer testcontainers.TerminateContainer(emulator)
	if err != nil {
		return err
	}
	state, err := emulator.State(ctx)
	if err == nil && !state.Running {
		return errors.New("the container does not run")
	}
	return err
}

func storesAndFinds(ctx context.Context, client *azcosmos.Client) error {
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "shop"}, nil); err != nil {
		return err
	}
	database, err := client.NewDatabase("shop")
	if err != nil {
		return err
	}
	key := azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}}
	properties := azcosmos.ContainerProperties{ID: "items", PartitionKeyDefinition: key}
	if _, err := database.CreateContainer(ctx, properties, nil); err != nil {
		return err
	}
	items, err := database.NewContainer("items")
	if err != nil {
		return err
	}
	pk := azcosmos.NewPartitionKeyString("a")
	if _, err := items.CreateItem(ctx, pk, []byte(`{"id":"1","pk":"a","name":"first"}`), nil); err != nil {
		return err
	}
	read, err := items.ReadItem(ctx, pk, "1", nil)
	if err != nil {
		return err
	}
	var item struct{ Name string }
	if err := json.Unmarshal(read.Value, &item); err != nil || item.Name != "first" {
		return fmt.Errorf("read %s (%v)", read.Value, err)
	}
	pages := items.NewQueryItemsPager("SELECT VALUE c.name FROM c", pk, nil)
	page, err := pages.NextPage(ctx)
	if err != nil {
		return err
	}
	if len(page.Items) != 1 || string(page.Items[0]) != `"first"` {
		return fmt.Errorf("the query found %s", page.Items)
	}
	return nil
}

func snippet() error {
	// snippet: go
	ctx := context.Background()
	emulator, err := cosmosdb.Run(ctx, image)
	defer testcontainers.TerminateContainer(emulator)
	if err != nil {
		return err
	}
	text, err := emulator.ConnectionString(ctx)
	if err != nil {
		return err
	}
	client, err := azcosmos.NewClientFromConnectionString(text, nil)
	// end
	if err != nil {
		return err
	}
	return storesAndFinds(ctx, client)
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
