package main

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// The arguments of one operation. An argument that no code asks for is one that the SDK has no option for.
type arguments struct {
	given map[string]json.RawMessage
	used  map[string]bool
}

func (a *arguments) unused() string {
	var names []string
	for name := range a.given {
		if !a.used[name] {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}

func (a *arguments) has(name string) bool {
	_, given := a.given[name]
	return given
}

// get is the argument as a T; its zero value if it is not given.
func get[T any](a *arguments, name string) T {
	var value T
	raw, given := a.given[name]
	a.used[name] = true
	if given {
		if err := json.Unmarshal(raw, &value); err != nil {
			panic(fmt.Sprintf("argument %s: %v", name, err))
		}
	}
	return value
}

// pointer is the argument as a pointer to a T; nil if it is not given.
func pointer[T any](a *arguments, name string) *T {
	if !a.has(name) {
		a.used[name] = true
		return nil
	}
	value := get[T](a, name)
	return &value
}

func (a *arguments) raw(name string) []byte {
	a.used[name] = true
	return a.given[name]
}

func (a *arguments) etag(name string) *azcore.ETag {
	return (*azcore.ETag)(pointer[string](a, name))
}

// keyOf is a partition key written as a JSON array; the service's words for none of it are an empty one.
func (d *driver) keyOf(values []any) azcosmos.PartitionKey {
	if len(values) == 1 {
		switch value := values[0].(type) {
		case string:
			d.reach("NewPartitionKeyString")
			return azcosmos.NewPartitionKeyString(value)
		case float64:
			d.reach("NewPartitionKeyNumber")
			return azcosmos.NewPartitionKeyNumber(value)
		case bool:
			d.reach("NewPartitionKeyBool")
			return azcosmos.NewPartitionKeyBool(value)
		case nil:
			return azcosmos.NullPartitionKey
		}
	}
	d.reach("NewPartitionKey")
	key := azcosmos.NewPartitionKey()
	for _, value := range values {
		switch value := value.(type) {
		case string:
			d.reach("PartitionKey.AppendString")
			key = key.AppendString(value)
		case float64:
			d.reach("PartitionKey.AppendNumber")
			key = key.AppendNumber(value)
		case bool:
			d.reach("PartitionKey.AppendBool")
			key = key.AppendBool(value)
		case nil:
			d.reach("PartitionKey.AppendNull")
			key = key.AppendNull()
		}
	}
	return key
}

// partitionKey is the argument of that name; none is an empty key, which means every partition to a query.
func (d *driver) partitionKey(a *arguments) azcosmos.PartitionKey {
	return d.keyOf(get[[]any](a, "partition_key"))
}

// throughput is what a new container or database, or an offer, shall have; nil if nothing is said.
func (d *driver) throughput(a *arguments) *azcosmos.ThroughputProperties {
	manual, autoscale := pointer[int32](a, "throughput"), pointer[struct {
		Max       int32
		Increment int32
	}](a, "autoscale")
	var wanted azcosmos.ThroughputProperties
	switch {
	case manual != nil:
		d.reach("NewManualThroughputProperties")
		wanted = azcosmos.NewManualThroughputProperties(*manual)
	case autoscale != nil && autoscale.Increment != 0:
		d.reach("NewAutoscaleThroughputPropertiesWithIncrement")
		wanted = azcosmos.NewAutoscaleThroughputPropertiesWithIncrement(autoscale.Max, autoscale.Increment)
	case autoscale != nil:
		d.reach("NewAutoscaleThroughputProperties")
		wanted = azcosmos.NewAutoscaleThroughputProperties(autoscale.Max)
	default:
		return nil
	}
	return &wanted
}

func parameters(a *arguments) []azcosmos.QueryParameter {
	return get[[]azcosmos.QueryParameter](a, "parameters")
}
