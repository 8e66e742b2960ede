// Package gauges reads and writes what inference engines say of their load: at /metrics, at SGLang's
// /v1/loads, and in the header of ORCA (Open Request Cost Aggregation) that comes with answers. What
// that corrects of the router's own counts is the business of router/signals.
//
// The router's own counts come first. Gauges are seconds old, change their names
// between versions, and may be missing; nothing is decided on them alone.
package gauges

import "strings"

// quantity is what a gauge measures.
type quantity uint8

const (
	running quantity = iota
	waiting
	kvUse
	hostRequests
	hostWork
	hostCores
	quantities
)

// names of the gauges by quantity: of several that a server has, the first
// counts. Colons and underscores are alike. Ray exports what vLLM says of itself under a prefix
// of its own; Ray Serve's own counts are no substitute, since a request counts once in each
// deployment that it passes. NVIDIA NIM has vLLM's names without their prefix.
var names = [quantities][]string{
	running: {
		"vllm:num_requests_running",
		"ray_vllm:num_requests_running",
		"sglang:num_running_reqs",
		"trtllm_num_requests_running",
		"llamacpp:requests_processing",
		"tgi_batch_current_size",
		"num_requests_running",
	},
	waiting: {
		"vllm:num_requests_waiting",
		"ray_vllm:num_requests_waiting",
		"sglang:num_queue_reqs",
		"trtllm_num_requests_waiting",
		"llamacpp:requests_deferred",
		"tgi_queue_size",
		"num_requests_waiting",
	},
	kvUse: {
		"vllm:kv_cache_usage_perc",
		"vllm:gpu_cache_usage_perc", // before 0.10
		"ray_vllm:kv_cache_usage_perc",
		"ray_vllm:gpu_cache_usage_perc",
		"sglang:token_usage",
		"trtllm_kv_cache_utilization",
		"llamacpp:kv_cache_usage_ratio", // of old builds
		"gpu_cache_usage_perc",
		"kv_cache_usage_perc",
	},
	hostRequests: {"gearshift_engine_host_requests"},
	hostWork:     {"gearshift_engine_outstanding_work_seconds"},
	hostCores:    {"gearshift_engine_host_cores"},
}

// known finds a gauge by its name, as plain has it.
var known = func() map[string]position {
	m := map[string]position{}
	for q, list := range names {
		for rank, name := range list {
			m[plain(name)] = position{quantity(q), rank}
		}
	}
	return m
}()

// position is that of a gauge in names.
type position struct {
	quantity quantity
	rank     int
}

func plain(name string) string { return strings.ReplaceAll(name, ":", "_") }
