//go:build !amd64

package wire

// plainBlocks is plain, in blocks, as far as all of a block is plain.
func plainBlocks(b []byte, inside bool) (n, begun int, within, ascii bool) {
	return plainWords(b, inside)
}
