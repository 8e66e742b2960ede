//go:build serveonly

package prompts

var packed []byte
