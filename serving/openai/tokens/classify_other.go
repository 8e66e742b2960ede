//go:build !amd64

package tokens

// classify says of each byte what it is.
func classify(b *[64]byte, x *block) { classifyWords(b, x) }
