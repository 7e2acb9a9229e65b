package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// itemOptions are the options that reads and writes of one item share. Writes bring the item back unless told not to.
func (d *driver) itemOptions(a *arguments) *azcosmos.ItemOptions {
	return &azcosmos.ItemOptions{
		PreTriggers:                  get[[]string](a, "pre_triggers"),
		PostTriggers:                 get[[]string](a, "post_triggers"),
		SessionToken:                 pointer[string](a, "session_token"),
		ConsistencyLevel:             pointer[azcosmos.ConsistencyLevel](a, "consistency"),
		IndexingDirective:            pointer[azcosmos.IndexingDirective](a, "indexing"),
		IfMatchEtag:                  a.etag("if_match"),
		EnableContentResponseOnWrite: !d.quiet && !get[bool](a, "no_response"),
	}
}

// item is the answer about one item.
func item(response azcosmos.ItemResponse, err error) (*answer, error) {
	reply := answerOf(response.RawResponse)
	if len(response.Value) > 0 {
		reply.Body = json.RawMessage(response.Value)
	}
	return reply, err
}

func (d *driver) createItem(ctx context.Context, a *arguments) (*answer, error) {
	container, err := d.container(a)
	if err != nil {
		return nil, err
	}
	d.reach("ContainerClient.CreateItem")
	return item(container.CreateItem(ctx, d.partitionKey(a), a.raw("item"), d.itemOptions(a)))
}

func (d *driver) readItem(ctx context.Context, a *arguments) (*answer, error) {
	container, err := d.container(a)
	if err != nil {
		return nil, err
	}
	d.reach("ContainerClient.ReadItem")
	return item(container.ReadItem(ctx, d.partitionKey(a), get[string](a, "id"), d.itemOptions(a)))
}

func (d *driver) upsertItem(ctx context.Context, a *arguments) (*answer, error) {
	container, err := d.container(a)
	if err != nil {
		return nil, err
	}
	d.reach("ContainerClient.UpsertItem")
	return item(container.UpsertItem(ctx, d.partitionKey(a), a.raw("item"), d.itemOptions(a)))
}

func (d *driver) replaceItem(ctx context.Context, a *arguments) (*answer, error) {
	container, err := d.container(a)
	if err != nil {
		return nil, err
	}
	d.reach("ContainerClient.ReplaceItem")
	return item(container.ReplaceItem(ctx, d.partitionKey(a), get[string](a, "id"), a.raw("item"), d.itemOptions(a)))
}

func (d *driver) deleteItem(ctx context.Context, a *arguments) (*answer, error) {
	container, err := d.container(a)
	if err != nil {
		return nil, err
	}
	d.reach("ContainerClient.DeleteItem")
	return item(container.DeleteItem(ctx, d.partitionKey(a), get[string](a, "id"), d.itemOptions(a)))
}

func (d *driver) patchItem(ctx context.Context, a *arguments) (*answer, error) {
	container, err := d.container(a)
	if err != nil {
		return nil, err
	}
	patch, err := d.patch(a.raw("operations"), pointer[string](a, "condition"))
	if err != nil {
		return nil, err
	}
	d.reach("ContainerClient.PatchItem")
	return item(container.PatchItem(ctx, d.partitionKey(a), get[string](a, "id"), patch, d.itemOptions(a)))
}

// patch puts the operations together: `{op, path, value}` each, as on the wire.
func (d *driver) patch(raw []byte, condition *string) (azcosmos.PatchOperations, error) {
	var steps []struct {
		Op, Path string
		Value    any
	}
	patch := azcosmos.PatchOperations{}
	if err := json.Unmarshal(raw, &steps); err != nil {
		return patch, err
	}
	for _, step := range steps {
		switch step.Op {
		case "add":
			d.reach("PatchOperations.AppendAdd")
			patch.AppendAdd(step.Path, step.Value)
		case "set":
			d.reach("PatchOperations.AppendSet")
			patch.AppendSet(step.Path, step.Value)
		case "replace":
			d.reach("PatchOperations.AppendReplace")
			patch.AppendReplace(step.Path, step.Value)
		case "remove":
			d.reach("PatchOperations.AppendRemove")
			patch.AppendRemove(step.Path)
		case "incr":
			amount, _ := step.Value.(float64)
			if amount != float64(int64(amount)) {
				return patch, errMissing("an increment that is no integer")
			}
			d.reach("PatchOperations.AppendIncrement")
			patch.AppendIncrement(step.Path, int64(amount))
		default:
			return patch, errMissing("the patch operation " + step.Op)
		}
	}
	if condition != nil {
		d.reach("PatchOperations.SetCondition")
		patch.SetCondition(*condition)
	}
	return patch, nil
}

func (d *driver) readManyItems(ctx context.Context, a *arguments) (*answer, error) {
	container, err := d.container(a)
	if err != nil {
		return nil, err
	}
	var identities []azcosmos.ItemIdentity
	for _, identity := range get[[]struct {
		ID           string `json:"id"`
		PartitionKey []any  `json:"partition_key"`
	}](a, "identities") {
		key := d.keyOf(identity.PartitionKey)
		identities = append(identities, azcosmos.ItemIdentity{ID: identity.ID, PartitionKey: key})
	}
	d.reach("ContainerClient.ReadManyItems")
	read, err := container.ReadManyItems(ctx, identities, &azcosmos.ReadManyItemsOptions{
		SessionToken: pointer[string](a, "session_token"),
	})
	return &answer{
		Status: http.StatusOK, Items: rawItems(read.Items),
		Headers: map[string]string{"x-ms-request-charge": fmt.Sprint(read.RequestCharge)},
	}, err
}

func (d *driver) queryItems(ctx context.Context, a *arguments) (*answer, error) {
	container, err := d.container(a)
	if err != nil {
		return nil, err
	}
	d.reach("ContainerClient.NewQueryItemsPager")
	options := &azcosmos.QueryOptions{
		SessionToken:                       pointer[string](a, "session_token"),
		PopulateIndexMetrics:               get[bool](a, "index_metrics"),
		ResponseContinuationTokenLimitInKB: get[int32](a, "continuation_limit_kb"),
		PageSizeHint:                       get[int32](a, "page_size"),
		ContinuationToken:                  pointer[string](a, "continuation"),
		QueryParameters:                    parameters(a),
		EnableCrossPartitionQuery:          pointer[bool](a, "cross_partition"),
	}
	pager := container.NewQueryItemsPager(get[string](a, "query"), d.partitionKey(a), options)
	return pages(ctx, a, pager, func(page azcosmos.QueryItemsResponse) (*answer, []json.RawMessage, error) {
		return answerOf(page.RawResponse), rawItems(page.Items), nil
	})
}

func rawItems(items [][]byte) []json.RawMessage {
	var raw []json.RawMessage
	for _, item := range items {
		raw = append(raw, item)
	}
	return raw
}

func (d *driver) batch(ctx context.Context, a *arguments) (*answer, error) {
	container, err := d.container(a)
	if err != nil {
		return nil, err
	}
	d.reach("ContainerClient.NewTransactionalBatch", "ContainerClient.ExecuteTransactionalBatch")
	batch := container.NewTransactionalBatch(d.partitionKey(a))
	for _, step := range get[[]struct {
		Op         string
		ID         string
		Item       json.RawMessage
		IfMatch    *string `json:"if_match"`
		Operations json.RawMessage
		Condition  *string
	}](a, "operations") {
		var options *azcosmos.TransactionalBatchItemOptions
		if step.IfMatch != nil {
			etag := (&arguments{
				given: map[string]json.RawMessage{"etag": json.RawMessage(fmt.Sprintf("%q", *step.IfMatch))},
				used:  map[string]bool{},
			}).etag("etag")
			options = &azcosmos.TransactionalBatchItemOptions{IfMatchETag: etag}
		}
		switch step.Op {
		case "create":
			d.reach("TransactionalBatch.CreateItem")
			batch.CreateItem(step.Item, options)
		case "upsert":
			d.reach("TransactionalBatch.UpsertItem")
			batch.UpsertItem(step.Item, options)
		case "replace":
			d.reach("TransactionalBatch.ReplaceItem")
			batch.ReplaceItem(step.ID, step.Item, options)
		case "read":
			d.reach("TransactionalBatch.ReadItem")
			batch.ReadItem(step.ID, options)
		case "delete":
			d.reach("TransactionalBatch.DeleteItem")
			batch.DeleteItem(step.ID, options)
		case "patch":
			patch, err := d.patch(step.Operations, step.Condition)
			if err != nil {
				return nil, err
			}
			d.reach("TransactionalBatch.PatchItem")
			batch.PatchItem(step.ID, patch, options)
		}
	}
	done, err := container.ExecuteTransactionalBatch(ctx, batch, &azcosmos.TransactionalBatchOptions{
		EnableContentResponseOnWrite: !get[bool](a, "no_response"),
	})
	reply := answerOf(done.RawResponse)
	for _, one := range done.OperationResults {
		reply.Results = append(reply.Results, result{
			Status: int(one.StatusCode), Body: one.ResourceBody, Etag: string(one.ETag), Charge: one.RequestCharge,
		})
	}
	return reply, err
}

func (d *driver) readFeedRanges(ctx context.Context, a *arguments) (*answer, error) {
	container, err := d.container(a)
	if err != nil {
		return nil, err
	}
	d.reach("ContainerClient.ReadFeedRanges")
	ranges, err := container.ReadFeedRanges(ctx, nil)
	if err != nil {
		return nil, err
	}
	items, err := encoded(ranges)
	return &answer{Status: http.StatusOK, Items: items}, err
}

// changeFeed reads until there is nothing new, or as many pages as the step asks for.
func (d *driver) changeFeed(ctx context.Context, a *arguments) (*answer, error) {
	container, err := d.container(a)
	if err != nil {
		return nil, err
	}
	options := &azcosmos.ChangeFeedOptions{
		MaxItemCount: get[int32](a, "page_size"),
		FeedRange:    pointer[azcosmos.FeedRange](a, "feed_range"),
		Continuation: pointer[string](a, "continuation"),
	}
	if options.FeedRange == nil && options.Continuation == nil {
		options.FeedRange = &azcosmos.FeedRange{MaxExclusive: "FF"} // the SDK wants one always: the whole container
	}
	if a.has("partition_key") {
		key := d.partitionKey(a)
		options.PartitionKey = &key
	}
	switch start := get[string](a, "start"); start {
	case "", "beginning":
	case "now":
		now := time.Now()
		options.StartFrom = &now
	default:
		at, err := time.Parse(time.RFC3339, start)
		if err != nil {
			return nil, err
		}
		options.StartFrom = &at
	}
	most := pointer[int](a, "max_pages")
	d.reach("ContainerClient.ReadChangeFeed")
	reply := &answer{}
	var sizes []int
	var items []json.RawMessage
	for most == nil || len(sizes) < *most {
		page, err := container.ReadChangeFeed(ctx, options)
		if err != nil {
			return nil, err
		}
		token := page.ContinuationToken
		reply = answerOf(page.RawResponse)
		reply.Continuation = token
		sizes, items = append(sizes, len(page.Items)), append(items, rawItems(page.Items)...)
		options.Continuation = &token
		if reply.Status == http.StatusNotModified {
			break
		}
	}
	reply.Items, reply.Pages = items, sizes
	return reply, nil
}
