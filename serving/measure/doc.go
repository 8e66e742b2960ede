// Package measure drives an OpenAI-compatible engine under controlled loads, alone
// and beside load on its neighbours, and says what its steps took: the samples
// that a latency model is fitted to. It is a client: it knows engines by their
// URLs, and looks into none.
package measure
