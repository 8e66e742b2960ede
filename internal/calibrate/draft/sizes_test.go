package draft

import (
	"math"
	"testing"
)

func TestParameters(t *testing.T) {
	for name, want := range map[string][2]float64{
		"facebook/opt-125m": {125e6, 125e6}, "opt-1.3b": {1.3e9, 1.3e9}, "meta-llama/Llama-3.1-8B-Instruct": {8e9, 8e9},
		"qwen2.5:0.5b": {0.5e9, 0.5e9}, "llama3.2:1b": {1e9, 1e9}, "Qwen2.5-7B-Instruct-AWQ": {7e9, 7e9}, "Qwen3-30B-A3B": {30e9, 3e9},
		"Mixtral-8x7B-v0.1": {47.04e9, 12.95e9}, "gpt-oss-20b": {20e9, 20e9}, "qwen2.5-0.5b-q4_k_m": {0.5e9, 0.5e9},
		"gemma-3n-E4B-it": {4e9, 4e9}, "Llama-4-Scout-17B-16E": {17e9, 17e9}, "smollm2-360M": {360e6, 360e6}, "mamba-2.8b-hf": {2.8e9, 2.8e9},
		"gpt-4o-mini": {0, 0}, "llama7b": {7e9, 7e9}, "bge-m3": {0, 0}, "phi-3-mini-4k-instruct": {0, 0}, "model-4bit": {0, 0}, "small": {0, 0}, "a": {0, 0},
	} {
		all, active := Parameters(name)
		if math.Abs(all-want[0]) > 1e6 || math.Abs(active-want[1]) > 1e6 {
			t.Errorf("%s: %g, %g active; want %g, %g", name, all, active, want[0], want[1])
		}
	}
}

func TestRanks(t *testing.T) {
	order := []string{"nano", "tiny", "gpt-4o-mini", "small", "flan-base", "t5-large", "whisper-xl"}
	for i := 1; i < len(order); i++ {
		if rankOf(order[i-1]) >= rankOf(order[i]) || rankOf(order[i-1]) == 0 {
			t.Errorf("%s does not come before %s", order[i-1], order[i])
		}
	}
	if rankOf("llama") != 0 || rankOf("smaller") != 0 {
		t.Error("a word that is no size has a rank")
	}
}

func TestBytesPerParameter(t *testing.T) {
	for name, want := range map[string]float64{
		"Q4_K_M": 0.57, "qwen2.5-3b-q4.gguf": 0.57, "Llama-AWQ": 0.57, "Llama-FP8": 1.06, "model-8bit": 1.06, "Q8_0": 1.06, "IQ3_XS": 0.45, "opt-1.3b": 2, "F16": 2,
	} {
		if got, _ := bytesPerParameter(name); got != want {
			t.Errorf("%s: %v bytes, want %v", name, got, want)
		}
	}
}
