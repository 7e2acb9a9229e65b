// The OTLP receiver of the OpenTelemetry collector, alone: prints one JSON line for each batch.
//
// The first line says that both ports are open. Each further line is a batch as the collector's own
// marshaler for OTLP in JSON writes it. The program ends when standard input closes.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

var output sync.Mutex

func line(text []byte, err error) error {
	if err != nil {
		return err
	}
	output.Lock()
	defer output.Unlock()
	_, err = os.Stdout.Write(append(text, '\n'))
	return err
}

func main() {
	httpPort := flag.Int("http", 4318, "port for OTLP over HTTP")
	grpcPort := flag.Int("grpc", 4317, "port for OTLP over gRPC")
	flag.Parse()
	if err := run(*httpPort, *grpcPort); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(httpPort, grpcPort int) error {
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	address := func(port int) map[string]any {
		return map[string]any{"endpoint": fmt.Sprintf("127.0.0.1:%d", port)}
	}
	settings := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{
		"http": address(httpPort),
		"grpc": address(grpcPort),
	}})
	if err := settings.Unmarshal(config); err != nil {
		return err
	}
	traces, err := consumer.NewTraces(func(_ context.Context, batch ptrace.Traces) error {
		return line((&ptrace.JSONMarshaler{}).MarshalTraces(batch))
	})
	if err != nil {
		return err
	}
	metrics, err := consumer.NewMetrics(func(_ context.Context, batch pmetric.Metrics) error {
		return line((&pmetric.JSONMarshaler{}).MarshalMetrics(batch))
	})
	if err != nil {
		return err
	}
	ctx, host := context.Background(), componenttest.NewNopHost()
	options := receivertest.NewNopSettings(factory.Type())
	// Both receivers share one server.
	tracesReceiver, err := factory.CreateTraces(ctx, options, config, traces)
	if err != nil {
		return err
	}
	metricsReceiver, err := factory.CreateMetrics(ctx, options, config, metrics)
	if err != nil {
		return err
	}
	for _, one := range []component.Component{tracesReceiver, metricsReceiver} {
		if err := one.Start(ctx, host); err != nil {
			return err
		}
		defer func() { _ = one.Shutdown(ctx) }()
	}
	if err := line([]byte(`{"ready": true}`), nil); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
