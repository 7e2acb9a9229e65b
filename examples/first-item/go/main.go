package main

import (
	"context"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

const key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

func main() {
	ctx := context.Background()
	credential := must(azcosmos.NewKeyCredential(key))
	client := must(azcosmos.NewClientWithKey("http://127.0.0.1:8081", credential, nil))

	// The second run finds both there: a conflict, which is no reason to stop.
	client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "blog"}, nil)
	blog := must(client.NewDatabase("blog"))
	blog.CreateContainer(ctx, azcosmos.ContainerProperties{
		ID:                     "posts",
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/postId"}},
	}, nil)

	posts := must(client.NewContainer("blog", "posts"))
	post := azcosmos.NewPartitionKeyString("p1")
	must(posts.UpsertItem(ctx, post, []byte(`{"id": "1", "postId": "p1", "title": "Hello from Go"}`), nil))
	read := must(posts.ReadItem(ctx, post, "1", nil))
	fmt.Println(string(read.Value), read.RequestCharge, "RU")
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
