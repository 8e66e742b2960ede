// Package loadgen is the one client that drives load. It asks an OpenAI-compatible server for
// its models and for streamed answers, and times what comes back. Two drivers stand on that:
// [Client] sends each request at its time, whether answers keep up or not, and [Session] times
// an engine's steps under controlled loads, alone and while its neighbours are busy: the samples
// that a latency model is fitted to. It knows servers by their URLs, and looks into none.
package loadgen
