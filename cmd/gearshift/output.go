package main

import (
	"encoding/json"
	"io"
	"os"

	"golang.org/x/term"
)

// printJSON writes v for people and programs alike.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// isTerminal says whether a person watches w, and lines may overwrite each other.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
