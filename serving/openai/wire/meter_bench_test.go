package wire

import (
	"slices"
	"strings"
	"testing"
)

// BenchmarkMeter is a chat's stream of 200 events, each read as a piece of its own, as
// they arrive, and all of it in pieces of 4 KiB:
//
//	go test -run '^$' -bench Meter ./serving/openai/wire
func BenchmarkMeter(b *testing.B) {
	const event = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	text := strings.Repeat(event, 200) + "data: [DONE]\n\n"
	for name, size := range map[string]int{"events": len(event), "pieces": 4 << 10} {
		b.Run(name, func(b *testing.B) {
			pieces := slices.Collect(slices.Chunk([]byte(text), size))
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				m := NewMeter(true)
				for _, p := range pieces {
					_, _ = m.Write(p)
				}
				if m.Close(); m.Tokens() != 200 {
					b.Fatal(m.Tokens())
				}
			}
		})
	}
}
