package streams

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// Path is that of the endpoint, and AboutPath of what says how to stream there.
const (
	Path      = "/v1/gearshift/stream"
	AboutPath = Path + "/about"
)

// The kinds of messages in JSON: those of clients, and those of the router.
const (
	KindHello  = "hello"
	KindReport = "report"

	KindPlace    = "place"
	KindSchedule = "schedule"
	KindResult   = "result"
	KindError    = "error"
)

// Up holds what a client says: what it wants, in its first message, and later what it has measured.
type Up struct {
	Type string `json:"type"`
	// SLA is the accuracy that it may lose, FPS the frames that it has in a second, and Task what the results are of.
	SLA  float64 `json:"sla,omitempty"`
	FPS  float64 `json:"fps,omitempty"`
	Task string  `json:"task,omitempty"`
	// Frame is the number of its newest frame, and AgeMS how long it has had that.
	Frame int     `json:"frame,omitempty"`
	AgeMS float64 `json:"age_ms,omitempty"`
	// DropRate is the accuracy that its tracker loses with each frame of stride, and NetworkMS the time of a frame to the
	// router and of its result back; 0 is unknown.
	DropRate  float64 `json:"drop_rate,omitempty"`
	NetworkMS float64 `json:"network_ms,omitempty"`
}

// Down holds what the router says: the client's place, its schedule, a result, or what it has done wrong.
type Down struct {
	Type string `json:"type"`
	// Number counts the messages of a session. Over WebTransport a schedule may come after a later message.
	Number int `json:"n"`

	// Of a place: whether the client is served, on which host, and how long that takes for a frame alone; or why it is not.
	Served  bool    `json:"served,omitempty"`
	Host    string  `json:"host,omitempty"`
	AloneMS float64 `json:"alone_ms,omitempty"`
	Why     string  `json:"why,omitempty"`

	// Of a schedule, which replaces the one before.
	Frames []Due `json:"frames,omitempty"`

	// Of a result: its frame, when that was captured by the client's clock, the variant, how long the frame waited and the
	// batch took, and the row of each output.
	Frame       int                        `json:"frame,omitempty"`
	Captured    int64                      `json:"captured_us,omitempty"`
	Model       string                     `json:"model,omitempty"`
	Batch       int                        `json:"batch,omitempty"`
	QueueMS     float64                    `json:"queue_ms,omitempty"`
	InferenceMS float64                    `json:"inference_ms,omitempty"`
	LateMS      float64                    `json:"late_ms,omitempty"`
	Outputs     map[string]json.RawMessage `json:"outputs,omitempty"`

	// Of an error. Frame says which frame it is about.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// Due is a frame that a client is to send, and in how many ms from now it has to be there.
type Due struct {
	Frame int     `json:"frame"`
	InMS  float64 `json:"in_ms"`
}

// headerBytes is the length of the header of a frame, which precedes its JPEG.
const headerBytes = 16

// AppendHeader appends the header of a frame: its number, and when it was captured in µs by the client's clock, 8 bytes
// each with the most significant first.
func AppendHeader(b []byte, frame int, captured int64) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(frame))
	return binary.BigEndian.AppendUint64(b, uint64(captured))
}

// readHeader takes a frame apart.
func readHeader(b []byte) (frame int, captured int64, picture []byte, err error) {
	if len(b) <= headerBytes {
		return 0, 0, nil, fmt.Errorf("a frame of %d bytes; want a header of %d, its number and when it was captured, and a JPEG", len(b), headerBytes)
	}
	n := binary.BigEndian.Uint64(b)
	if n > mostNumber {
		return 0, 0, nil, fmt.Errorf("frame %d; want a number up to %d", n, mostNumber)
	}
	return int(n), int64(binary.BigEndian.Uint64(b[8:])), b[headerBytes:], nil
}

// The bounds of what clients say.
const (
	mostNumber    = 1 << 40 // of a frame
	mostRate      = 1.0
	mostNetworkMS = 150 // the longest makes plans rigid for all
	mostAgeMS     = 1000
	mostText      = 4 << 10 // bytes of a message in JSON
)

// read reads a message of a client and checks its numbers.
func (u *Up) read(text []byte) error {
	if err := json.Unmarshal(text, u); err != nil {
		return fmt.Errorf("a message that is no JSON: %w", err)
	}
	switch {
	case u.Type != KindHello && u.Type != KindReport:
		return fmt.Errorf("a message of type %q; want %s or %s", u.Type, KindHello, KindReport)
	case !(u.DropRate >= 0 && u.DropRate <= mostRate):
		return fmt.Errorf("drop_rate: %v; want the accuracy lost with each frame, from 0 to %v", u.DropRate, mostRate)
	case !(u.NetworkMS >= 0 && u.NetworkMS <= mostNetworkMS):
		return fmt.Errorf("network_ms: %v; want 0 to %d", u.NetworkMS, mostNetworkMS)
	case u.Type == KindReport:
		return nil
	case !(u.SLA >= 0 && u.SLA <= 1):
		return fmt.Errorf("sla: %v; want the accuracy that may be lost, from 0 to 1", u.SLA)
	case u.Frame < 0 || u.Frame > mostNumber:
		return fmt.Errorf("frame: %d; want the number of the newest frame, 0 to %d", u.Frame, mostNumber)
	case !(u.AgeMS >= 0 && u.AgeMS <= mostAgeMS):
		return fmt.Errorf("age_ms: %v; want 0 to %d", u.AgeMS, mostAgeMS)
	}
	return nil
}

var errFirst = errors.New("the first message of a stream is a hello")
