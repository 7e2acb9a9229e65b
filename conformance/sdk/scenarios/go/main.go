// The driver for the Go SDK: carries out the operations of the table with azcosmos.
//
// It reads a line of JSON and writes one; conformance/sdk/scenarios/driver.py has the agreement. Every public method of
// the SDK's clients is called under its name (driver.reach), so that the run can say which no scenario leads to.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// The types whose methods are public ways to ask the service for something.
var publicTypes = []reflect.Type{
	reflect.TypeFor[*azcosmos.Client](),
	reflect.TypeFor[*azcosmos.DatabaseClient](),
	reflect.TypeFor[*azcosmos.ContainerClient](),
	reflect.TypeFor[*azcosmos.TransactionalBatch](),
	reflect.TypeFor[*azcosmos.PatchOperations](),
	reflect.TypeFor[*azcosmos.ThroughputProperties](),
	reflect.TypeFor[*azcosmos.ChangeFeedResponse](),
	reflect.TypeFor[*azcosmos.PartitionKey](),
}

// The package's functions that make them; reflection cannot list functions.
var publicFunctions = []string{
	"NewClient", "NewClientFromConnectionString", "NewClientWithKey", "NewKeyCredential",
	"NewAutoscaleThroughputProperties", "NewAutoscaleThroughputPropertiesWithIncrement", "NewManualThroughputProperties",
	"NewPartitionKey", "NewPartitionKeyBool", "NewPartitionKeyNumber", "NewPartitionKeyString",
}

type driver struct {
	endpoint, key string
	usual         *azcosmos.Client // of the server's key
	client        *azcosmos.Client // the one in use: the usual one, or what `connect` made
	quiet         bool             // whether the client in use wants no items back
	reached       map[string]bool
	// Whether the container before was found through its database.
	throughDatabase bool
}

// What is said of a request; see matching.py.
type answer struct {
	Status       int               `json:"status"`
	Substatus    int               `json:"substatus"`
	Headers      map[string]string `json:"headers"`
	Body         any               `json:"body,omitempty"`
	Items        []json.RawMessage `json:"items,omitempty"`
	Pages        []int             `json:"pages,omitempty"`
	Continuation string            `json:"continuation,omitempty"`
	Results      []result          `json:"results,omitempty"`
	Message      string            `json:"message,omitempty"`
}

// One operation of a batch.
type result struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body,omitempty"`
	Etag   string          `json:"etag,omitempty"`
	Charge float32         `json:"charge"`
}

// errMissing says that the SDK has no public method for what was asked.
type errMissing string

func (what errMissing) Error() string { return string(what) }

func main() {
	usual, err := connect(os.Getenv("ORRERY_ENDPOINT"), os.Getenv("ORRERY_KEY"), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	d := &driver{
		endpoint: os.Getenv("ORRERY_ENDPOINT"), key: os.Getenv("ORRERY_KEY"),
		usual: usual, client: usual, reached: map[string]bool{},
	}
	d.reach("NewClientWithKey", "NewKeyCredential")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		if err := out.Encode(d.said(lines.Bytes())); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	d.usual.Close()
}

// said is the answer to one line.
func (d *driver) said(line []byte) any {
	var request struct {
		Do   string
		With map[string]json.RawMessage
	}
	if err := json.Unmarshal(line, &request); err != nil {
		return map[string]string{"raised": err.Error()}
	}
	switch request.Do {
	case "reset":
		d.reset()
		return map[string]string{}
	case "methods":
		return map[string][]string{"methods": publicMethods(), "reached": d.methodsReached()}
	}
	operation, known := operations[request.Do]
	if !known {
		return map[string]string{"missing": request.Do}
	}
	asked := &arguments{given: request.With, used: map[string]bool{}}
	reply, err := operation(d, context.Background(), asked)
	var missing errMissing
	if errors.As(err, &missing) {
		return map[string]string{"missing": request.Do + " with " + missing.Error()}
	}
	if unused := asked.unused(); unused != "" {
		return map[string]string{"missing": request.Do + " with " + unused}
	}
	var refused *azcore.ResponseError
	if errors.As(err, &refused) && refused.RawResponse != nil {
		reply := answerOf(refused.RawResponse)
		reply.Message = err.Error()
		return reply
	}
	if err != nil {
		return map[string]string{"raised": err.Error()}
	}
	return reply
}

// reach notes that these methods were called.
func (d *driver) reach(methods ...string) {
	for _, method := range methods {
		d.reached[method] = true
	}
}

// reset goes back to the usual client.
func (d *driver) reset() {
	if d.client != d.usual {
		d.client.Close()
		d.reach("Client.Close")
		d.client, d.quiet = d.usual, false
	}
}

func (d *driver) methodsReached() []string {
	var names []string
	for name := range d.reached {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func publicMethods() []string {
	names := append([]string{}, publicFunctions...)
	for _, kind := range publicTypes {
		for place := range kind.NumMethod() {
			names = append(names, kind.Elem().Name()+"."+kind.Method(place).Name)
		}
	}
	return names
}

// answerOf takes from a response what all answers have.
func answerOf(response *http.Response) *answer {
	reply := &answer{Headers: map[string]string{}}
	if response == nil {
		return reply
	}
	reply.Status = response.StatusCode
	for name := range response.Header {
		reply.Headers[strings.ToLower(name)] = response.Header.Get(name)
	}
	reply.Substatus, _ = strconv.Atoi(response.Header.Get("x-ms-substatus"))
	reply.Continuation = response.Header.Get("x-ms-continuation")
	return reply
}

// withBody adds the resource to an answer.
func withBody(response *http.Response, body any) *answer {
	reply := answerOf(response)
	reply.Body = body
	return reply
}
