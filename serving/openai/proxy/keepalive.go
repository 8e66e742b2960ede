package proxy

import (
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/serving/openai/wire"
)

// KeepAlive writes comments to the client of a stream while its handler waits, so that no proxy
// between them ends the connection as idle. With the first comment the header goes out. Its methods
// are called by the handler; those of a nil KeepAlive do nothing.
type KeepAlive struct {
	writer *Writer
	gin    *gin.Context
	every  time.Duration
	timer  *time.Timer

	mu      sync.Mutex // protects all below, and while the handler waits the answer's header
	waiting bool
	ended   bool
	head    func() // sets what else the header has, if it is not nil
	last    time.Time
}

// comment is a line that clients of events skip.
var comment = []byte(": keep-alive\n\n")

// KeepAlive keeps the connection of a client that asked for a stream alive, until Stop is called.
func (w *Writer) KeepAlive(c *gin.Context) *KeepAlive {
	every := w.Settings().KeepAlive
	if every <= 0 {
		return nil
	}
	k := &KeepAlive{writer: w, gin: c, every: every, last: time.Now()}
	k.timer = time.AfterFunc(every, k.beat)
	return k
}

// Wait says that the handler waits, and until Rest touches neither the answer nor its header.
// Head, if it is not nil, adds to the header that may go out meanwhile.
func (k *KeepAlive) Wait(head func()) {
	if k != nil {
		k.mu.Lock()
		k.waiting, k.head = true, head
		k.mu.Unlock()
	}
}

// Wrote says that something has gone out, and that the handler waits for more.
func (k *KeepAlive) Wrote() {
	if k != nil {
		k.mu.Lock()
		k.waiting, k.last = true, time.Now()
		k.mu.Unlock()
	}
}

// Rest says that the handler goes on. Nothing else is written until the next Wait.
func (k *KeepAlive) Rest() {
	if k != nil {
		k.mu.Lock()
		k.waiting = false
		k.mu.Unlock()
	}
}

// Stop ends the comments. None is written after it.
func (k *KeepAlive) Stop() {
	if k != nil {
		k.mu.Lock()
		k.waiting, k.ended = false, true
		k.mu.Unlock()
		k.timer.Stop()
	}
}

// beat writes a comment if nothing has gone out for long enough.
func (k *KeepAlive) beat() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return
	}
	switch left := k.every - time.Since(k.last); {
	case left > 0:
		k.timer.Reset(left)
	case !k.waiting: // soon it waits again, or is done
		k.timer.Reset(k.every/8 + time.Millisecond)
	default:
		k.write()
		k.last = time.Now()
		k.timer.Reset(k.every)
	}
}

func (k *KeepAlive) write() {
	c := k.gin
	if !c.Writer.Written() {
		if k.head != nil {
			k.head()
		}
		h := c.Writer.Header()
		h["Content-Type"], h["Cache-Control"], h["X-Accel-Buffering"] = []string{"text/event-stream"}, []string{"no-cache"}, []string{"no"}
		k.writer.Closing(c)
	}
	k.writer.Writable(c)
	// Whether the client is still there its handler finds out.
	_, _ = c.Writer.Write(comment)
	c.Writer.Flush()
	k.writer.Waits(c)
}

// Event writes an error into a stream that has begun, in the form of the API that was asked.
func (w *Writer) Event(c *gin.Context, e wire.Error) {
	e.RequestID = c.Writer.Header().Get(RequestID)
	path := c.Request.URL.Path
	text := e.Event(path == wire.ResponsesPath)
	if wire.SpeaksMessages(path) {
		text = e.MessagesEvent()
	}
	w.Writable(c)
	_, _ = c.Writer.Write(append([]byte("\n"), text...))
	c.Writer.Flush()
}
