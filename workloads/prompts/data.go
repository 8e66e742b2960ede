//go:build !serveonly

package prompts

import _ "embed" // of the data

//go:embed data/nine_models.csv.bz2
var packed []byte
