package gauges_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"gearshift/router/signals"
	"gearshift/serving/engines/gauges"
)

func TestFormsThatClientsAskFor(t *testing.T) {
	for value, want := range map[string]gauges.Format{"TEXT": gauges.Text, "text": gauges.Text, " Json ": gauges.JSON, "JSON": gauges.JSON, "BIN": gauges.NoFormat, "": gauges.NoFormat} {
		if got := gauges.FormatAsked(http.Header{gauges.FormatHeader: {value}}); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
	if gauges.FormatAsked(http.Header{}) != gauges.NoFormat {
		t.Error("a client that does not ask gets the header")
	}
}

// numberOf makes a Load from what is set.
func numberOf(set func(l *signals.Load)) signals.Load {
	l := signals.NewLoad()
	set(&l)
	return l
}

func TestHeaders(t *testing.T) {
	vllm := numberOf(func(l *signals.Load) { l.KVUse, l.Waiting = 0.3, 2 })
	triton := numberOf(func(l *signals.Load) { l.KVUse = 0.4 })
	envoy := numberOf(func(l *signals.Load) { l.CPU, l.Rate, l.Errors = 0.3, 10, 1 })
	for value, want := range map[string]signals.Load{
		"TEXT named_metrics.kv_cache_usage_perc=0.3, named_metrics.num_requests_waiting=2.0":                         vllm,
		"named_metrics.kv_cache_usage_perc=0.3,named_metrics.num_requests_waiting=2":                                 vllm,
		"text\tkv_cache_usage_perc=0.3 , num_requests_waiting = 2":                                                   vllm,
		`JSON {"named_metrics": {"kv_cache_usage_perc": 0.3, "num_requests_waiting": 2.0}}`:                          vllm,
		`{"named_metrics":{"kv_cache_usage_perc":0.3,"num_requests_waiting":2}}`:                                     vllm,
		`json {"named_metrics.kv_cache_usage_perc":0.3,"num_requests_waiting":2,"x":"y","utilization":{"disk":0.4}}`: vllm,
		"TEXT named_metrics.kv_cache_utilization=0.4, named_metrics.max_token_capacity=1000":                         triton,
		"TEXT cpu_utilization=0.3, mem_utilization=0.8, rps_fractional=10.0, eps=1, named_metrics.custom=0.4":        envoy,
	} {
		if got, err := gauges.ParseLoad(value); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", value, got, err, want)
		}
	}
}

// Protobuf's JSON writes names in camel case, and may write numbers as strings.
func TestHeadersInProtobufsJSON(t *testing.T) {
	want := numberOf(func(l *signals.Load) { l.CPU, l.Utilization, l.Rate, l.Errors, l.Requests = 0.4, 0.7, 3, 0.5, 5 })
	for _, value := range []string{
		`JSON {"cpuUtilization":0.4,"applicationUtilization":0.7,"rpsFractional":3,"eps":0.5,"namedMetrics":{"num_requests_running":5}}`,
		`{"cpu_utilization":"0.4","application_utilization":"0.7","rps_fractional":"3","eps":" 5e-1 ","named_metrics":{"num_requests_running":"5"}}`,
		`{"cpuUtilization":"0.4","memUtilization":null,"applicationUtilization":0.7,"rps":"3","eps":0.5,"requestCost":{"x":1},"namedMetrics":{"numRequestsRunning":"5"}}`,
	} {
		if got, err := gauges.ParseLoad(value); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", value, got, err, want)
		}
	}
	if _, err := gauges.ParseLoad(`{"cpuUtilization":"much","namedMetrics":"0.5"}`); !errors.Is(err, gauges.ErrNoLoad) {
		t.Errorf("strings that are no numbers: %v, want ErrNone", err)
	}
}

func TestHeadersThatSayNothing(t *testing.T) {
	for _, value := range []string{"", "TEXT ", "JSON {}", "custom=1", "named_metrics.custom=0.4", "TEXT =", "kv_cache_usage_perc", "kv_cache_usage_perc=high"} {
		if _, err := gauges.ParseLoad(value); !errors.Is(err, gauges.ErrNoLoad) {
			t.Errorf("%q: %v, want ErrNone", value, err)
		}
	}
	for value, want := range map[string]string{
		"JSON {":                     "cannot read Endpoint-Load-Metrics: unexpected end of JSON input",
		"{]":                         "invalid character",
		strings.Repeat("a=1,", 4000): "has 16000 bytes; want at most 8192",
	} {
		if _, err := gauges.ParseLoad(value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", value, err, want)
		}
	}
}

// full is a Load that says everything.
var full = signals.Load{
	Requests: 5, Waiting: 2, Host: 9, Examples: 11, Work: 0.25, Cores: 4, KVUse: 0.5, KVTokens: 1000,
	CPU: 0.75, Utilization: 0.5, Rate: 12.5, Errors: 0.5, Answered: 1234, Model: 77, Instance: 4294967295,
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, f := range []gauges.Format{gauges.Text, gauges.JSON} {
		for name, l := range map[string]signals.Load{"all": full, "some": numberOf(func(l *signals.Load) { l.Requests, l.Waiting, l.CPU = 3, 0, 0.1 })} {
			value := gauges.WriteLoad(f, &l)
			if got, err := gauges.ParseLoad(value); err != nil || got != l {
				t.Errorf("%s: %s: %+v, %v; want %+v", name, value, got, err, l)
			}
		}
	}
	if gauges.WriteLoad(gauges.NoFormat, &full) != "" {
		t.Error("a header is written for a client that does not ask")
	}
}

// Short numbers are read in a quick way, and come to the same as in the usual one.
func TestNumbers(t *testing.T) {
	texts := []string{"0", "1", "12.5", "0.1", ".5", "5.", ".", "", "1.2.3", "999999999999999", "99999999999999.9", "123456789012345678", "1e3", "-4", "+4", "NaN", "0x10", "1_0", "007.250"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		texts = append(texts, strconv.FormatFloat(random.Float64()*math.Pow(10, float64(random.IntN(9))), 'f', random.IntN(7), 64))
	}
	for _, text := range texts {
		want, wantErr := strconv.ParseFloat(text, 64)
		l, err := gauges.ParseLoad("eps=" + text)
		switch {
		case (err == nil) != (wantErr == nil):
			t.Errorf("%q: error %v, want %v", text, err, wantErr)
		case err == nil && want >= 0 && l.Errors != want:
			t.Errorf("%q: %v, want %v", text, l.Errors, want)
		}
	}
}

func TestReadingTextAllocatesNothing(t *testing.T) {
	value := gauges.WriteLoad(gauges.Text, &full)
	if n := testing.AllocsPerRun(100, func() { _, _ = gauges.ParseLoad(value) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestPages(t *testing.T) {
	for name, c := range map[string]struct {
		page string
		want signals.Load
		ours bool
	}{
		"sglang": {`{"timestamp":"1999-01-01T00:00:00Z","dp_rank_count":2,"loads":[
			{"dp_rank":0,"num_running_reqs":3,"num_waiting_reqs":1,"num_used_tokens":100,"max_total_num_tokens":1000,"token_usage":0.1,"utilization":0.5,"gen_throughput":9},
			{"dp_rank":1,"num_running_reqs":2,"num_waiting_reqs":0,"num_used_tokens":300,"max_total_num_tokens":1000,"token_usage":0.3,"utilization":0.7}],
			"aggregate":{"total_reqs":6}}`,
			numberOf(func(l *signals.Load) { l.Requests, l.Waiting, l.KVTokens, l.KVUse, l.Utilization = 6, 1, 400, 0.2, 0.6 }), false},
		"a rank that is not ready": {`{"loads":[{"num_running_reqs":0,"max_total_num_tokens":0},{"num_running_reqs":2,"max_total_num_tokens":10}]}`,
			numberOf(func(l *signals.Load) { l.Requests = 2 }), false},
		"one model of two": {`{"loads":[{"model":"n","num_running_reqs":9,"host_requests":11},{"model":"m","num_running_reqs":2,"host_requests":11,"host_cores":4}]}`,
			numberOf(func(l *signals.Load) { l.Requests, l.Host, l.Cores, l.Model = 2, 11, 4, signals.ModelID("m") }), true},
	} {
		t.Run(name, func(t *testing.T) {
			got, ours, err := gauges.ParseLoads([]byte(c.page), "m")
			if err != nil || ours != c.ours || math.Abs(got.KVUse-c.want.KVUse) > 1e-12 {
				t.Fatalf("%+v, %v, %v; want %+v", got, ours, err, c.want)
			}
			got.KVUse = c.want.KVUse
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
	for page, want := range map[string]string{
		`{"loads":[]}`: "no scheduler of the model is ready",
		`{"loads":[{"num_running_reqs":0,"max_total_num_tokens":0}]}`: "no scheduler of the model is ready",
		`{"loads":[{"model":"n","num_running_reqs":1}]}`:              "no scheduler of the model is ready",
		`<html>`:                   "invalid character",
		strings.Repeat(" ", 2<<20): "has 2097152 bytes; want at most 1048576",
	} {
		if _, _, err := gauges.ParseLoads([]byte(page), "m"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", page, err, want)
		}
	}
}

// FuzzParseLoad: whatever a server sends, a header is read or refused, and what is read can be written
// and read again.
func FuzzParseLoad(f *testing.F) {
	f.Add(gauges.WriteLoad(gauges.Text, &full))
	f.Add(gauges.WriteLoad(gauges.JSON, &full))
	f.Add("TEXT named_metrics.kv_cache_usage_perc=NaN, num_requests_waiting=1e999,eps=-1")
	f.Add(`{"named_metrics":{"kv_cache_usage_perc":1e300},"rps":-0}`)
	f.Fuzz(func(t *testing.T, value string) {
		l, err := gauges.ParseLoad(value)
		if err != nil {
			if l != signals.NewLoad() {
				t.Fatalf("%q: %+v with the error %v", value, l, err)
			}
			return
		}
		for _, form := range []gauges.Format{gauges.Text, gauges.JSON} {
			again := gauges.WriteLoad(form, &l)
			if strings.ContainsAny(again, "\r\n") {
				t.Fatalf("%q is no value of a header", again)
			}
		}
	})
}
