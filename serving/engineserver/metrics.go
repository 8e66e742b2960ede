package engineserver

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"gearshift/serving/backend"
)

// Buckets of the histograms, in seconds: vLLM's own.
var (
	firstTokenBuckets = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	perTokenBuckets   = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	requestBuckets    = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
)

// metrics are those of vLLM, under its names, that a simulated engine has.
type metrics struct {
	server *Server
	http   http.Handler
	block  int // tokens

	firstTokens, perTokens, requests *prometheus.HistogramVec
	prompted                         *prometheus.CounterVec
	succeeded                        *prometheus.CounterVec // by reason
}

// engineLabel is vLLM's index of the data-parallel engine, of which there is one.
var engineLabel = prometheus.Labels{"engine": "0"}

func newMetrics(s *Server, block int) *metrics {
	m := &metrics{server: s, block: block}
	registry := prometheus.NewRegistry()
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "vllm:" + name, Help: help, Buckets: buckets, ConstLabels: engineLabel}, []string{"model_name"})
		registry.MustRegister(v)
		return v
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "vllm:" + name, Help: help, ConstLabels: engineLabel}, append(labels, "model_name"))
		registry.MustRegister(v)
		return v
	}
	m.firstTokens = histogram("time_to_first_token_seconds", "Time from arrival to the first token.", firstTokenBuckets)
	m.perTokens = histogram("time_per_output_token_seconds", "Time per output token after the first.", perTokenBuckets)
	m.requests = histogram("e2e_request_latency_seconds", "Time from arrival to the end of successful requests.", requestBuckets)
	m.prompted = counter("prompt_tokens_total", "Prompt tokens of requests that ended.")
	m.succeeded = counter("request_success_total", "Requests that ended, by reason.", "finished_reason")
	for name := range s.models { // so that each has its zero before its first request
		m.firstTokens.WithLabelValues(name)
		m.perTokens.WithLabelValues(name)
		m.requests.WithLabelValues(name)
		m.prompted.WithLabelValues(name)
		for _, reason := range []string{"stop", "length", "abort"} {
			m.succeeded.WithLabelValues(reason, name)
		}
	}
	registry.MustRegister(m)
	m.http = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return m
}

func (m *metrics) handler() http.Handler { return m.http }

// observe enters an answer that has ended.
func (m *metrics) observe(s backend.Span) {
	table := m.server.table
	name := table.Variants[table.Replicas[s.Replica].Variant].Name
	if s.First > 0 {
		m.firstTokens.WithLabelValues(name).Observe(s.First.Seconds())
	}
	m.prompted.WithLabelValues(name).Add(float64(s.PromptTokens))
	reason := "stop"
	switch {
	case s.Err != nil:
		reason = "abort"
	case s.Cut:
		reason = "length"
	}
	m.succeeded.WithLabelValues(reason, name).Inc()
	if s.Err != nil {
		return
	}
	m.requests.WithLabelValues(name).Observe(s.Total.Seconds())
	if s.OutputTokens > 1 {
		m.perTokens.WithLabelValues(name).Observe((s.Total - s.First).Seconds() / float64(s.OutputTokens-1))
	}
}

var (
	labels          = []string{"model_name"}
	runningDesc     = prometheus.NewDesc("vllm:num_requests_running", "Requests in the batch.", labels, engineLabel)
	waitingDesc     = prometheus.NewDesc("vllm:num_requests_waiting", "Requests waiting.", labels, engineLabel)
	cacheDesc       = prometheus.NewDesc("vllm:kv_cache_usage_perc", "Share of the KV cache in use; 1 is all.", labels, engineLabel)
	oldCacheDesc    = prometheus.NewDesc("vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc under its older name.", labels, engineLabel)
	preemptionsDesc = prometheus.NewDesc("vllm:num_preemptions_total", "Requests sent back to be computed anew.", labels, engineLabel)
	cacheConfigDesc = prometheus.NewDesc("vllm:cache_config_info", "The KV cache: its blocks, and their size in tokens.", []string{"block_size", "num_gpu_blocks", "model_name"}, engineLabel)
	generatedDesc   = prometheus.NewDesc("vllm:generation_tokens_total", "Tokens generated.", labels, engineLabel)
)

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{runningDesc, waitingDesc, cacheDesc, oldCacheDesc, preemptionsDesc, generatedDesc, cacheConfigDesc} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	lie := m.server.faults.current().Lie
	for name, replica := range m.server.models {
		load := m.server.engines.Load(replica)
		if lie {
			load.Running, load.Waiting, load.CacheUsage = 0, 0, 0
		}
		gauge := func(d *prometheus.Desc, value float64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, name)
		}
		gauge(runningDesc, float64(load.Running))
		gauge(waitingDesc, float64(load.Waiting))
		gauge(cacheDesc, load.CacheUsage)
		gauge(oldCacheDesc, load.CacheUsage)
		if tokens := m.server.table.Replicas[replica].KVTokens; tokens > 0 {
			out <- prometheus.MustNewConstMetric(cacheConfigDesc, prometheus.GaugeValue, 1, strconv.Itoa(m.block), strconv.Itoa(tokens/m.block), name)
		}
		out <- prometheus.MustNewConstMetric(preemptionsDesc, prometheus.CounterValue, float64(load.Preemptions), name)
		out <- prometheus.MustNewConstMetric(generatedDesc, prometheus.CounterValue, float64(load.Tokens), name)
	}
}
