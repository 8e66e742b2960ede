package gauges

import (
	"errors"
	"strings"
	"testing"

	"gearshift/router/signals"
)

// said is a reading of these values, of the model by name or not.
func said(running, waiting, kvUse float64, named bool) Reading {
	l := signals.NewLoad()
	l.Waiting, l.KVUse = waiting, kvUse
	if running >= 0 {
		l.Requests = running + max(0, waiting)
	}
	return Reading{Reading: signals.Reading{Running: running, Waiting: waiting, KVUse: kvUse}, Load: l, named: named}
}

func TestParseHosts(t *testing.T) {
	got, err := Parse(strings.NewReader(`vllm:num_requests_running{engine="0",model_name="m"} 3
gearshift_engine_host_requests 9
gearshift_engine_outstanding_work_seconds 0.5
gearshift_engine_host_cores 4
`), "m")
	want := said(3, -1, -1, true)
	want.one, want.Load.Host, want.Load.Work, want.Load.Cores = true, 9, 0.5, 4
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		page string
		want Reading
	}{
		"vllm": {`# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 7.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
`, said(7, 2, 0.25, true)},
		"vllm of old": {"vllm:num_requests_running 1\nvllm:num_requests_waiting 0\nvllm:gpu_cache_usage_perc 0.5\n", said(1, 0, 0.5, false)},
		"both names":  {"vllm:gpu_cache_usage_perc 0.9\nvllm:kv_cache_usage_perc 0.5\n", said(-1, -1, 0.5, false)},
		"ranks add up": {`vllm:num_requests_running{engine="0",model_name="m"} 7
vllm:num_requests_running{engine="1",model_name="m"} 5
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.2
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.6
`, said(12, -1, 0.4, true)},
		"other models": {`vllm:num_requests_running{model_name="m"} 7
vllm:num_requests_running{model_name="n"} 50
`, said(7, -1, -1, true)},
		"sglang": {"sglang:num_running_reqs 3\nsglang:num_queue_reqs 4\nsglang:token_usage 0.1\n", said(3, 4, 0.1, false)},
		"sglang, by priority": {`sglang:num_running_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",priority="",tp_rank="0"} 5
sglang:num_running_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",priority="0",tp_rank="0"} 3
sglang:num_running_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",priority="1",tp_rank="0"} 2
sglang:num_queue_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",priority="",tp_rank="0"} 1
sglang:num_queue_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",priority="1",tp_rank="0"} 1
sglang:token_usage{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",priority="",tp_rank="0"} 0.25
`, said(5, 1, 0.25, true)},
		"sglang, all schedulers": {`sglang:num_running_reqs{dp_rank="0",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 5
sglang:num_running_reqs{dp_rank="0",model_name="m",moe_ep_rank="1",pp_rank="0",tp_rank="1"} 5
sglang:num_running_reqs{dp_rank="1",model_name="m",moe_ep_rank="2",pp_rank="0",tp_rank="2"} 3
sglang:num_running_reqs{dp_rank="1",model_name="m",moe_ep_rank="3",pp_rank="0",tp_rank="3"} 2
sglang:token_usage{dp_rank="0",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 0.5
sglang:token_usage{dp_rank="0",model_name="m",moe_ep_rank="1",pp_rank="0",tp_rank="1"} 0.5
sglang:token_usage{dp_rank="1",model_name="m",moe_ep_rank="2",pp_rank="0",tp_rank="2"} 0.25
`, said(8, -1, 0.375, true)},
		"underscores":  {"sglang_num_running_reqs 3\n", said(3, -1, -1, false)},
		"tensorrt-llm": {"trtllm_num_requests_running 3\ntrtllm_num_requests_waiting 4\ntrtllm_kv_cache_utilization 0.1\n", said(3, 4, 0.1, false)},
		"llama.cpp":    {"llamacpp:requests_processing 3\nllamacpp:requests_deferred 4\n", said(3, 4, -1, false)},
		"tgi":          {"tgi_batch_current_size 3\ntgi_queue_size 4\n", said(3, 4, -1, false)},
		"nvidia nim": {`num_requests_running{model_name="m"} 3.0
num_requests_waiting{model_name="m"} 1.0
num_request_max{model_name="m"} 256.0
gpu_cache_usage_perc{model_name="m"} 0.2
`, said(3, 1, 0.2, true)},
		"ray serve": {`ray_vllm_num_requests_running{Component="core_worker",ReplicaId="a",WorkerId="w",engine="0",model_name="m"} 3.0
ray_vllm_num_requests_running{Component="core_worker",ReplicaId="b",WorkerId="v",engine="0",model_name="m"} 4.0
ray_vllm_num_requests_waiting{Component="core_worker",ReplicaId="a",WorkerId="w",engine="0",model_name="m"} 1.0
ray_vllm_kv_cache_usage_perc{Component="core_worker",ReplicaId="a",WorkerId="w",engine="0",model_name="m"} 0.5
ray_serve_replica_processing_queries{deployment="LLMRouter"} 9
`, said(7, 1, 0.5, true)},
		"ray serve of old": {`ray_vllm:num_requests_running{model_name="m"} 3
ray_vllm:gpu_cache_usage_perc{model_name="m"} 0.25
`, said(3, -1, 0.25, true)},
		"a gauge that is NaN": {`vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} NaN
`, said(3, 1, -1, true)},
		"gauges that make no sense": {"vllm:num_requests_running +Inf\nvllm:num_requests_waiting -1\nvllm:kv_cache_usage_perc 0.5\n", said(-1, -1, 0.5, false)},
		"one rank that makes none": {`vllm:num_requests_running{engine="0",model_name="m"} 3
vllm:num_requests_running{engine="1",model_name="m"} NaN
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="m"} -Inf
`, said(3, -1, 0.5, true)},
		"another model's that makes none":     {"vllm:num_requests_running{model_name=\"old\"} NaN\nvllm:num_requests_running{model_name=\"m\"} 2\n", said(2, -1, -1, true)},
		"the newer name that makes none":      {"vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc NaN\n", said(-1, -1, 0.5, false)},
		"a line that is none":                 {"vllm:num_requests_running{ 1\nvllm:num_requests_waiting many\nvllm:num_requests_waiting 2\nvllm:kv_cache_usage_perc 0.5\n", said(-1, 2, 0.5, false)},
		"the same without an end of the line": {"vllm:num_requests_running 1\nvllm:num_requests_waiting 2", said(1, 2, -1, false)},
		"garbage in other lines": {"<html>\nfoo{ 1\nvllm:num_requests_running 3\nvllm:num_requests_running_total{x 4\n" +
			"# TYPE x nonsense\n\xff\xfe\n", said(3, -1, -1, false)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(strings.NewReader(c.page), "m")
			got.one = false
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestParseFaults(t *testing.T) {
	if _, err := Parse(strings.NewReader("go_goroutines 12\n"), ""); !errors.Is(err, ErrNone) {
		t.Errorf("error %v, want ErrNone", err)
	}
	for page, want := range map[string]string{
		"":                                                         "no gauge of a known engine",
		"vllm:num_requests_running NaN\n":                          "the value NaN makes no sense",
		"vllm:num_requests_running -1\n":                           "the value -1 makes no sense",
		"vllm:num_requests_running +Inf\n":                         "the value +Inf makes no sense",
		"vllm:num_requests_running many\n":                         `expected float as value, got "many"`,
		"vllm:num_requests_running{\n":                             "cannot read metrics: text format parsing error in line 1",
		"x " + strings.Repeat("1", 1<<20) + "\n":                   "token too long",
		strings.Repeat("x 1\n", 3<<20):                             "more than 8388608 bytes",
		strings.Repeat("num_requests_running{a=\"b\"} 1\n", 1<<16): "more than 1048576 bytes of gauges",
	} {
		if _, err := Parse(strings.NewReader(page), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want %q", page, err, want)
		}
	}
}

// FuzzParse: whatever a server sends, a reading makes sense or is an error.
func FuzzParse(f *testing.F) {
	f.Add("vllm:num_requests_running{model_name=\"m\"} 7.0\nvllm:kv_cache_usage_perc 0.5\n")
	f.Add("sglang:num_running_reqs 3\n# TYPE a b\n")
	f.Fuzz(func(t *testing.T, page string) {
		r, err := Parse(strings.NewReader(page), "m")
		if err != nil {
			return
		}
		for _, value := range []float64{r.Running, r.Waiting, r.KVUse} {
			if value != -1 && !(value >= 0 && value < 1e15) {
				t.Fatalf("%+v of %q", r, page)
			}
		}
	})
}
