package draft

import (
	"context"
	"io"
	"net/http"
	"strconv"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metrics reads the sizes of caches and the mean lengths of requests from the engine's
// metrics, if it has any.
func (e *askedEngine) metrics(ctx context.Context) {
	var families map[string]*dto.MetricFamily
	err := e.exchange(ctx, http.MethodGet, e.root+"/metrics", nil, func(r io.Reader) (err error) {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err = parser.TextToMetricFamilies(r)
		return err
	})
	if err != nil {
		return
	}
	for i := range e.out.Models {
		m := &e.out.Models[i]
		cache(m, families["vllm:cache_config_info"])
		if tokens := total(families["sglang:max_total_num_tokens"], m.ID); tokens > 0 {
			m.KVTokens = int(tokens)
		}
		answered(m, families)
	}
}

// cache takes the size of vLLM's KV cache, which stands in labels. Several engines of one
// server, each with its part of the requests, add up.
func cache(m *Model, family *dto.MetricFamily) {
	for _, sample := range family.GetMetric() {
		labels := labelsOf(sample)
		if name, ok := labels["model_name"]; ok && name != m.ID {
			continue
		}
		blocks, _ := strconv.Atoi(labels["num_gpu_blocks"]) // "None" where it is not known
		size, _ := strconv.Atoi(labels["block_size"])
		if blocks > 0 && size > 0 {
			m.KVTokens += blocks * size
			m.Block = size
		}
	}
}

// answered takes the mean lengths of the requests so far.
func answered(m *Model, families map[string]*dto.MetricFamily) {
	for _, names := range [][3]string{
		{"vllm:request_success_total", "vllm:prompt_tokens_total", "vllm:generation_tokens_total"},
		{"sglang:num_requests_total", "sglang:prompt_tokens_total", "sglang:generation_tokens_total"},
	} {
		n := total(families[names[0]], m.ID)
		prompts, outputs := total(families[names[1]], m.ID), total(families[names[2]], m.ID)
		if n >= 1 && prompts > 0 && outputs > 0 {
			m.Answered, m.MeanPrompt, m.MeanOutput = int(n), prompts/n, outputs/n
		}
	}
}

// total returns the sum of a family's samples of the model.
func total(family *dto.MetricFamily, id string) (sum float64) {
	for _, sample := range family.GetMetric() {
		if name, ok := labelsOf(sample)["model_name"]; ok && name != id {
			continue
		}
		// A sample is of one type, and the values of the others are zero.
		sum += sample.GetCounter().GetValue() + sample.GetGauge().GetValue() + sample.GetUntyped().GetValue()
	}
	return sum
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}
