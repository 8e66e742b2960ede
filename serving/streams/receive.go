package streams

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// take takes in a message. A fault ends the session; other errors are those of reading.
func (x *session) take(text bool, r io.Reader) error {
	m := x.module
	most := m.MaxFrame + headerBytes
	if text {
		most = mostText
	}
	var b []byte
	err := x.comes(text)
	if err == nil {
		b, err = x.receive(r, most)
	}
	if err == nil {
		if text {
			err = m.hear(x, b)
			m.buffers().Give(int64(cap(b)))
		} else {
			m.frame(x, b)
		}
	}
	var bad *fault
	if errors.As(err, &bad) {
		x.end(bad.status, bad.code, bad.message)
		select {
		case <-x.finished:
		case <-time.After(2 * writeTime):
		}
	}
	return err
}

// comes counts a message or a ping (text), or a frame. It returns a fault if it is one too many within a second: what is
// refused costs time as well, which others then lack.
func (x *session) comes(text bool) error {
	m := x.module
	x.idle.Reset(m.Idle)
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.frames(); now-x.window > m.FPS {
		x.window, x.messages, x.frames = now, 0, 0
	}
	if !text {
		x.frames++
	} else {
		x.messages++
	}
	switch most := max(mostMessages, int(mostSent*m.FPS)); {
	case x.messages > mostMessages:
		return &fault{statusWrong, "too_many_messages", fmt.Sprintf("more than %d messages in a second beside frames", mostMessages)}
	case x.frames > most:
		return &fault{statusWrong, "too_many_frames", fmt.Sprintf("more than %d frames in a second; want those of the schedule", most)}
	}
	return nil
}

// pinged takes in a ping of the client, and reports whether it is to be answered.
func (x *session) pinged() bool {
	if x.comes(true) == nil {
		return true
	}
	go x.conn.abort() // the reader has to return first
	return false
}

// fault is why a session ends.
type fault struct {
	status        status
	code, message string
}

// Error implements the error interface.
func (f *fault) Error() string { return f.message }

// receive reads a message of so many bytes at most, whose memory is charged as it comes.
func (x *session) receive(r io.Reader, most int) (b []byte, err error) {
	budget := x.module.buffers()
	for {
		if len(b) == cap(b) {
			size := min(max(2*cap(b), firstReading), most+1)
			if !budget.Take(int64(size)) {
				err = &fault{statusFull, "out_of_memory", "the router has no memory for what is sent; try again later"}
				break
			}
			budget.Give(int64(cap(b)))
			b = append(make([]byte, 0, size), b...)
		}
		var n int
		n, err = r.Read(b[len(b):cap(b)])
		if b = b[:len(b)+n]; len(b) > most {
			err = &fault{statusTooLarge, "too_large", fmt.Sprintf("a message of more than %d bytes (serving.streams.max_frame)", most)}
		}
		if err != nil {
			break
		}
	}
	if err == io.EOF {
		return b, nil
	}
	budget.Give(int64(cap(b)))
	return nil, err
}
