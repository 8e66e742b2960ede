package tokens

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkJSON is the estimate of one string, by its kind and length:
//
//	go test -run '^$' -bench JSON ./serving/openai/tokens
func BenchmarkJSON(b *testing.B) {
	for _, text := range []struct{ name, piece string }{
		{"english", "the gear turns, and the wheel with it. "}, {"code", `\tif err := f(a[i], 42); err != nil {\n\t\treturn \"x\", err\n`},
		{"chinese", "请帮我写一封邮件给客户，说明系统将升级。"}, {"escaped", `\u8bf7\u5e2e\u6211\u5199`},
	} {
		for _, size := range []int{1 << 10, 8 << 10, 220 << 10} {
			whole := []byte(strings.Repeat(text.piece, size/len(text.piece)))
			b.Run(fmt.Sprintf("%s/bytes=%d", text.name, size), func(b *testing.B) {
				b.SetBytes(int64(len(whole)))
				b.ReportAllocs()
				for b.Loop() {
					JSON(whole)
				}
			})
		}
	}
}
