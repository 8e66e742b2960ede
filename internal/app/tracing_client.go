package app

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/protobuf/proto"

	"gearshift/serving/config/setting"
)

// traceClient sends spans to a collector by OTLP over HTTP. It implements
// otlptrace.Client. OpenTelemetry's own would link all of gRPC into the binary for
// the type of one message; TracesData is the same on the wire.
type traceClient struct {
	url     string
	header  http.Header
	gzip    bool
	timeout time.Duration // of one message, with all attempts
	http    *http.Client
	wait    func(context.Context, time.Duration) error
}

const (
	defaultTimeout = 10 * time.Second
	// attempts bounds how often a message is sent to a collector that is busy.
	attempts  = 3
	firstWait = time.Second
)

// otlp is what the environment says of traces or, without that, of all signals.
func otlp(name string) string {
	if v := setting.Env("OTEL_EXPORTER_OTLP_TRACES_" + name); v != "" {
		return v
	}
	return setting.Env("OTEL_EXPORTER_OTLP_" + name)
}

// newTraceClient reads what the environment says, as OpenTelemetry's specification of
// the exporter has it. The endpoint, if there is one, goes before.
func newTraceClient(endpoint string) (*traceClient, error) {
	c := &traceClient{timeout: defaultTimeout, header: http.Header{}, wait: wait}
	faults := []error{c.address(endpoint)}
	if p := otlp("PROTOCOL"); p != "" && p != "http/protobuf" {
		faults = append(faults, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q; want http/protobuf, which is what is spoken here (collectors listen for it on port 4318)", p))
	}
	for pair := range strings.SplitSeq(otlp("HEADERS"), ",") {
		name, value, ok := strings.Cut(pair, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			continue
		}
		value = setting.Trim(value)
		if plain, err := url.PathUnescape(value); err == nil {
			value = setting.Trim(plain)
		}
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) { // the value may be secret
			faults = append(faults, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: the field %q is not valid in a header; want NAME=VALUE,NAME=VALUE", name))
			continue
		}
		c.header.Set(name, value)
	}
	c.header.Set("Content-Type", "application/x-protobuf")
	if c.gzip = otlp("COMPRESSION") == "gzip"; c.gzip {
		c.header.Set("Content-Encoding", "gzip")
	}
	if text := otlp("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms < 1 {
			faults = append(faults, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT is %q; want a number of milliseconds, such as 10000", text))
		}
		c.timeout = time.Duration(ms) * time.Millisecond
	}
	security, err := certificates()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = security
	c.http = &http.Client{Transport: transport}
	return c, errors.Join(append(faults, err)...)
}

// address finds the URL: a variable for traces alone holds the whole of it, others
// the part before /v1/traces.
func (c *traceClient) address(endpoint string) error {
	if endpoint == "" {
		c.url = setting.Env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	}
	if c.url == "" {
		if endpoint == "" {
			endpoint = setting.Env("OTEL_EXPORTER_OTLP_ENDPOINT")
		}
		c.url = strings.TrimSuffix(endpoint, "/") + "/v1/traces"
	}
	if u, err := url.Parse(c.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("the endpoint %q is no URL; want one such as http://localhost:4318", endpoint)
	}
	return nil
}

// certificates are those that the environment names: whom to trust, and who this is.
func certificates() (*tls.Config, error) {
	security := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := otlp("CERTIFICATE"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		security.RootCAs = x509.NewCertPool()
		if !security.RootCAs.AppendCertsFromPEM(setting.Text(text)) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: no certificate in %s", file)
		}
	}
	if file := otlp("CLIENT_CERTIFICATE"); file != "" {
		own, err := tls.LoadX509KeyPair(file, otlp("CLIENT_KEY"))
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: %w", err)
		}
		security.Certificates = []tls.Certificate{own}
	}
	return security, nil
}

// Start implements otlptrace.Client: there is nothing to begin.
func (*traceClient) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *traceClient) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client.
func (c *traceClient) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	if c.gzip {
		var small bytes.Buffer
		w := gzip.NewWriter(&small)
		if _, err := w.Write(body); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		body = small.Bytes()
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for n := 1; ; n++ {
		after, err := c.send(ctx, body)
		if err == nil || after < 0 || n == attempts {
			return err
		}
		if c.wait(ctx, max(after, firstWait<<(n-1))) != nil {
			return err
		}
	}
}

// send posts a message once. It may be sent again, after a time, if that is not
// negative.
func (c *traceClient) send(ctx context.Context, body []byte) (after time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	r.Header = c.header.Clone()
	response, err := c.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection can be used again
	switch code := response.StatusCode; code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		return time.Duration(max(0, seconds)) * time.Second, fmt.Errorf("the collector answered %s", response.Status)
	default:
		if code/100 != 2 {
			return -1, fmt.Errorf("the collector answered %s", response.Status)
		}
	}
	return 0, nil
}

// wait returns early, with an error, at the end of the context.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
