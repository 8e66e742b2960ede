package engineserver

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"gearshift/serving/admin/scrape"
	"gearshift/serving/backend"
	"gearshift/serving/engineserver/repository"
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
	registry.MustRegister(scrape.New(m.collect,
		runningDesc, waitingDesc, cacheDesc, oldCacheDesc, preemptionsDesc, generatedDesc, cacheConfigDesc,
		stateDesc, heldDesc, needDesc, loadTimeDesc, wakeTimeDesc, loadsDesc, inFlightDesc, memoryDesc, memoryHeldDesc, sleepStateDesc, hostDesc, workDesc, coresDesc))
	m.http = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return m
}

func (m *metrics) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, s := range m.server.models.Statuses() {
			if s.Engine != nil {
				m.begin(s.Name)
			}
		}
		m.http.ServeHTTP(w, r)
	})
}

// begin gives each metric of the model its zero, before the first request.
func (m *metrics) begin(name string) {
	m.firstTokens.WithLabelValues(name)
	m.perTokens.WithLabelValues(name)
	m.requests.WithLabelValues(name)
	m.prompted.WithLabelValues(name)
	for _, reason := range []string{"stop", "length", "abort"} {
		m.succeeded.WithLabelValues(reason, name)
	}
}

// observe enters an answer that has ended.
func (m *metrics) observe(name string, s backend.Span) {
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
	preemptionsDesc = prometheus.NewDesc("vllm:num_preemptions_total", "Requests sent back to be computed again.", labels, engineLabel)
	cacheConfigDesc = prometheus.NewDesc("vllm:cache_config_info", "The KV cache: its blocks, and their size in tokens.", []string{"block_size", "num_gpu_blocks", "model_name"}, engineLabel)
	generatedDesc   = prometheus.NewDesc("vllm:generation_tokens_total", "Tokens generated.", labels, engineLabel)
)

// What is loaded, under names of its own: vLLM serves one model, which is.
var (
	stateDesc      = prometheus.NewDesc("gearshift_engine_model_state", "1 for the state that the model is in.", []string{"model_name", "state"}, nil)
	heldDesc       = prometheus.NewDesc("gearshift_engine_model_memory_bytes", "Memory that the model holds.", labels, nil)
	needDesc       = prometheus.NewDesc("gearshift_engine_model_needs_bytes", "Memory that the model takes while it is loaded.", labels, nil)
	loadTimeDesc   = prometheus.NewDesc("gearshift_engine_model_load_seconds", "How long the last load took.", labels, nil)
	wakeTimeDesc   = prometheus.NewDesc("gearshift_engine_model_wake_seconds", "How long the last wake took.", labels, nil)
	loadsDesc      = prometheus.NewDesc("gearshift_engine_model_loads_total", "Loads that ended, by result: ok or failed.", []string{"model_name", "result"}, nil)
	inFlightDesc   = prometheus.NewDesc("gearshift_engine_model_requests_in_flight", "Requests that are being answered.", labels, nil)
	memoryDesc     = prometheus.NewDesc("gearshift_engine_memory_bytes", "Memory that models may hold together; absent without a bound.", nil, nil)
	memoryHeldDesc = prometheus.NewDesc("gearshift_engine_memory_held_bytes", "Memory that models hold together.", nil, nil)
	sleepStateDesc = prometheus.NewDesc("vllm:engine_sleep_state", "1 for what the model's sleep keeps: awake, weights_offloaded or discard_all.", []string{"sleep_state", "model_name"}, engineLabel)
)

// What the load of the host is, as the header of ORCA has it.
var (
	hostDesc  = prometheus.NewDesc("gearshift_engine_host_requests", "Requests of all models on the host.", nil, nil)
	workDesc  = prometheus.NewDesc("gearshift_engine_outstanding_work_seconds", "How long the requests of all models on the host are estimated to take on one core.", nil, nil)
	coresDesc = prometheus.NewDesc("gearshift_engine_host_cores", "Cores of the host.", nil, nil)
)

// collect collects what the models report of themselves.
func (m *metrics) collect(out scrape.Metrics) {
	m.collectHost(out)
	for _, s := range m.server.models.Statuses() {
		collectLife(out, s)
		if s.Engine != nil {
			m.collectLoad(out, s)
		}
	}
	total, held := m.server.models.Memory()
	if total > 0 {
		out.Gauge(memoryDesc, float64(total))
	}
	out.Gauge(memoryHeldDesc, float64(held))
}

// collectHost collects what is of the host.
func (m *metrics) collectHost(out scrape.Metrics) {
	r := m.server.activity.of(nil, m.server.threads)
	if m.server.faults.current().Lie {
		r.host, r.work = 0, 0
	}
	out.Gauge(hostDesc, float64(r.host))
	out.Gauge(workDesc, r.work)
	if m.server.cores > 0 {
		out.Gauge(coresDesc, m.server.cores)
	}
}

// collectLoad collects what a model that is ready says of its engine.
func (m *metrics) collectLoad(out scrape.Metrics, s repository.Status) {
	load := s.Engine.Load()
	if m.server.faults.current().Lie {
		load.Running, load.Waiting, load.CacheUsage = 0, 0, 0
	}
	out.Gauge(runningDesc, float64(load.Running), s.Name)
	out.Gauge(waitingDesc, float64(load.Waiting), s.Name)
	out.Gauge(cacheDesc, load.CacheUsage, s.Name)
	out.Gauge(oldCacheDesc, load.CacheUsage, s.Name)
	if s.Context > 0 {
		out.Gauge(cacheConfigDesc, 1, strconv.Itoa(m.block), strconv.Itoa(s.Context/m.block), s.Name)
	}
	out.Counter(preemptionsDesc, float64(load.Preemptions), s.Name)
	out.Counter(generatedDesc, float64(load.Tokens), s.Name)
}

// collectLife collects where the model is in its life.
func collectLife(out scrape.Metrics, s repository.Status) {
	for state := repository.Unloaded; state <= repository.Failed; state++ {
		out.Flag(stateDesc, state == s.State, s.Name, state.String())
	}
	out.Gauge(heldDesc, float64(s.Held), s.Name)
	out.Gauge(needDesc, float64(s.Model.Memory), s.Name)
	out.Gauge(loadTimeDesc, s.LoadTime.Seconds(), s.Name)
	out.Gauge(wakeTimeDesc, s.WakeTime.Seconds(), s.Name)
	out.Counter(loadsDesc, float64(s.Loads), s.Name, "ok")
	out.Counter(loadsDesc, float64(s.Failures), s.Name, "failed")
	out.Gauge(inFlightDesc, float64(s.InFlight), s.Name)
	if s.State == repository.Ready || s.State == repository.Asleep {
		for level, name := range []string{"awake", "weights_offloaded", "discard_all"} {
			out.Flag(sleepStateDesc, int(s.Level) == level, name, s.Name)
		}
	}
}
