//go:build !serveonly

package digits

import _ "embed" // of the data

//go:embed data/images.bin.gz
var packedImages []byte

//go:embed data/sounds.bin
var packedSounds []byte
