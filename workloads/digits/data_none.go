//go:build serveonly

package digits

var packedImages, packedSounds []byte
