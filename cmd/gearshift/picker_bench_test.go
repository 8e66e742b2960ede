package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modepb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
)

// TestPickersCompared measures the time of a pick over gRPC on loopback, from the request's header to the last of its
// body, and the picks per second with an answer after each. GEARSHIFT_PICKERS sets the time of each measurement (make
// bench-picker). GEARSHIFT_LLMD, if set, is llm-d-router's epp, measured in turn with the same engines.
func TestPickersCompared(t *testing.T) {
	each, err := time.ParseDuration(cmp.Or(os.Getenv("GEARSHIFT_PICKERS"), "0s"))
	if err != nil || each == 0 {
		t.Skip("it measures for minutes; run make bench-picker, or set GEARSHIFT_PICKERS to a time such as 2s")
	}
	// Room and time for prompts of any length: nothing waits, and nothing is refused.
	x := newPickerCheck(t, strings.NewReplacer("deadline_ms: 12", "deadline_ms: 100000", "_per_token: 20_000", "_per_token: 100",
		"_per_token: 40_000", "_per_token: 100", "_per_token: 80_000", "_per_token: 100", "_per_token: 130_000", "_per_token: 100"))
	pickers := []timedPicker{{"gearshift", x.picker, x.router}}
	if epp := os.Getenv("GEARSHIFT_LLMD"); epp != "" {
		pickers = append(pickers, x.peer(epp))
	}
	for _, c := range []pickerLoad{
		{"1 client, 1 KB", 1, 1 << 10, 0}, {"16 clients, 1 KB", 16, 1 << 10, 0}, {"1 client, 220 KB", 1, 220_000, 0},
		{"20 clients, 10/s each, 220 KB", 20, 220_000, 100 * time.Millisecond}, {"20 clients, 220 KB", 20, 220_000, 0},
	} {
		medians, rates, cores := make([][]float64, len(pickers)), make([][]float64, len(pickers)), make([][]float64, len(pickers))
		for range 5 {
			for i, p := range pickers {
				median, rate, core := p.measure(t, each, c)
				medians[i], rates[i], cores[i] = append(medians[i], median), append(rates[i], rate), append(cores[i], core)
			}
		}
		for i, p := range pickers {
			slices.Sort(medians[i])
			slices.Sort(rates[i])
			slices.Sort(cores[i])
			t.Logf("%-30s %-13s p50 %7.0f µs (%.0f to %.0f), %6.0f picks/s (%.0f to %.0f), %5.0f µs of a core each: %6.0f picks/s on two cores of its own", c.name, p.name,
				medians[i][2], medians[i][0], medians[i][4], rates[i][2], rates[i][0], rates[i][4], cores[i][2], 2e6/cores[i][2])
		}
	}
}

// pickerLoad has clients ask with prompts of a size in bytes, each for the next pick after the pause.
type pickerLoad struct {
	name            string
	clients, prompt int
	pause           time.Duration
}

// timedPicker is a picker under measurement.
type timedPicker struct {
	name    string
	client  pb.ExternalProcessorClient
	process *process
}

// asEnvoy connects to a picker with Envoy's windows of HTTP/2, and with buffers of the size of pieces: Envoy clears none,
// and gRPC's default is to take and clear 1 MiB for each piece above 32 KiB.
func asEnvoy(addr string) (*grpc.ClientConn, error) {
	buffers, err := mem.NewBinaryTieredBufferPool(8, 12, 14, 15, 16, 17, 20)
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithInitialWindowSize(16<<20), grpc.WithInitialConnWindowSize(24<<20), experimental.WithBufferPool(buffers))
}

// peer starts llm-d-router's picker, which finds the engines in a file.
func (x *pickerCheck) peer(program string) timedPicker {
	dir := x.TempDir()
	var endpoints strings.Builder
	endpoints.WriteString("endpoints:\n")
	for i, at := range x.hosts {
		host, port, _ := strings.Cut(at, ":")
		fmt.Fprintf(&endpoints, "  - {name: e%d, address: %q, port: %q}\n", i, host, port)
	}
	found := filepath.Join(dir, "endpoints.yaml")
	config := fmt.Sprintf(`apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - {name: file-disc, type: file-discovery, parameters: {path: %q}}
  - {type: queue-scorer}
  - {type: kv-cache-utilization-scorer}
  - {type: max-score-picker}
schedulingProfiles:
  - name: default
    plugins: [{pluginRef: queue-scorer}, {pluginRef: kv-cache-utilization-scorer}, {pluginRef: max-score-picker}]
dataLayer: {discovery: {pluginRef: file-disc}}
`, found)
	for name, text := range map[string]string{found: endpoints.String(), filepath.Join(dir, "config.yaml"): config} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			x.Fatal(err)
		}
	}
	at, port := freeAddr(x.T), func() string { _, p, _ := strings.Cut(freeAddr(x.T), ":"); return p }
	_, own, _ := strings.Cut(at, ":")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		x.Fatal(err)
	}
	c := exec.Command(program, "--config-file", filepath.Join(dir, "config.yaml"), "--grpc-port", own, "--grpc-health-port", port(), "--metrics-port", port(),
		"--secure-serving=false", "--metrics-endpoint-auth=false", "--tracing=false", "--zap-log-level", "error", "-v", "0", "--pool-name", "epp", "--pool-namespace", "default")
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		x.Fatal(err)
	}
	x.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		log.Close()
	})
	conn, err := asEnvoy(at)
	if err != nil {
		x.Fatal(err)
	}
	x.Cleanup(func() { conn.Close() })
	client := pb.NewExternalProcessorClient(conn)
	for late := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err = onePick(x.Context(), client, []byte(`{"model":"auto","messages":[{"role":"user","content":"hi"}]}`)); err == nil {
			return timedPicker{"llm-d-router", client, &process{command: c}}
		}
		if time.Now().After(late) {
			text, _ := os.ReadFile(log.Name())
			x.Fatalf("%s picks nothing: %v: %.500s", program, err, text)
		}
	}
}

// measure runs clients for a time, each with one pick after another, and returns the median in microseconds,
// the picks per second, and what each takes of the picker's processors in microseconds.
func (p timedPicker) measure(t *testing.T, each time.Duration, load pickerLoad) (median, rate, core float64) {
	body := []byte(`{"model":"auto","max_tokens":20,"messages":[{"role":"user","content":"` + strings.Repeat("word ", load.prompt/5) + `"}]}`)
	ctx, stop := context.WithTimeout(t.Context(), each)
	defer stop()
	var mu sync.Mutex
	var all []float64
	var work sync.WaitGroup
	began, before := time.Now(), p.process.processorTime(t)
	for i := range load.clients {
		work.Go(func() {
			var took []float64
			pause(ctx, load.pause*time.Duration(i)/time.Duration(load.clients)) // not all at once
			for ctx.Err() == nil {
				d, err := onePick(t.Context(), p.client, body)
				if err != nil {
					t.Errorf("%s: %v", p.name, err)
					return
				}
				took = append(took, float64(d)/float64(time.Microsecond))
				pause(ctx, load.pause)
			}
			mu.Lock()
			all = append(all, took...)
			mu.Unlock()
		})
	}
	work.Wait()
	slices.Sort(all)
	if len(all) == 0 {
		return 0, 0, 0
	}
	core = float64(p.process.processorTime(t)-before) / float64(time.Microsecond) / float64(len(all))
	return all[len(all)/2], float64(len(all)) / time.Since(began).Seconds(), core
}

// onePick asks for an endpoint, and returns the time until the whole body has come back. Then an answer passes.
func onePick(ctx context.Context, client pb.ExternalProcessorClient, body []byte) (took time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	stream, err := client.Process(ctx)
	if err != nil {
		return 0, err
	}
	m := &pb.ProcessingRequest{
		Request: &pb.ProcessingRequest_RequestHeaders{RequestHeaders: headerOf(":method", "POST", ":path", "/v1/chat/completions", ":authority", "models", "content-type", "application/json", "content-length", strconv.Itoa(len(body)))},
		ProtocolConfig: &pb.ProtocolConfiguration{
			RequestBodyMode: modepb.ProcessingMode_FULL_DUPLEX_STREAMED, ResponseBodyMode: modepb.ProcessingMode_FULL_DUPLEX_STREAMED,
		},
	}
	if err := stream.Send(m); err != nil {
		return 0, err
	}
	for at := 0; at < len(body); at += 64 << 10 {
		end := min(len(body), at+64<<10)
		piece := &pb.HttpBody{Body: body[at:end], EndOfStream: end == len(body)}
		if err := stream.Send(&pb.ProcessingRequest{Request: &pb.ProcessingRequest_RequestBody{RequestBody: piece}}); err != nil {
			break // the answer says why
		}
	}
	ended := func(kind func(*pb.ProcessingResponse) *pb.BodyResponse) error {
		for {
			m, err := stream.Recv()
			if err != nil {
				return err
			}
			if now := m.GetImmediateResponse(); now != nil {
				return fmt.Errorf("%d: %.200s", now.Status.Code, now.Body)
			}
			if kind(m).GetResponse().GetBodyMutation().GetStreamedResponse().GetEndOfStream() {
				return nil
			}
		}
	}
	if err := ended((*pb.ProcessingResponse).GetRequestBody); err != nil {
		return 0, err
	}
	took = time.Since(began)
	answer := `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`
	for _, m := range []*pb.ProcessingRequest{
		{Request: &pb.ProcessingRequest_ResponseHeaders{ResponseHeaders: headerOf(":status", "200", "content-type", "application/json")}},
		{Request: &pb.ProcessingRequest_ResponseBody{ResponseBody: &pb.HttpBody{Body: []byte(answer), EndOfStream: true}}},
	} {
		if err := stream.Send(m); err != nil {
			return 0, err
		}
	}
	return took, ended((*pb.ProcessingResponse).GetResponseBody)
}

// headerOf returns a header of these names and values.
func headerOf(fields ...string) *pb.HttpHeaders {
	h := &corepb.HeaderMap{}
	for i := 0; i < len(fields); i += 2 {
		h.Headers = append(h.Headers, &corepb.HeaderValue{Key: fields[i], RawValue: []byte(fields[i+1])})
	}
	return &pb.HttpHeaders{Headers: h}
}
