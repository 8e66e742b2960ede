// Package offload plans which frames streaming clients send to a server, and the batches in which the server runs
// them, so that as many clients as possible keep the accuracy that they were promised. Between two results a client
// tracks the last one by itself, and loses accuracy with each frame (ARISE, MobiSys'24; rows ARISE-1 to 9).
//
// Times are in frame intervals of the plan's clock: 1 is 1/fps seconds. The package is pure.
package offload

import (
	"cmp"
	"math"
)

// Same bounds by how much two accuracies, or two times in frames, may differ and still count as equal.
const Same = 1e-9

// Client holds what a plan knows of a streaming client.
type Client struct {
	// SLA is the accuracy that it may lose beyond the [Reference] in the mean over a plan.
	SLA float64
	// Rate is the accuracy that its tracker loses with each frame of stride, see [Rate].
	Rate float64
	// Network is the time of a frame to the server and of its result back.
	Network float64
	// Last is the number of the frame that it has sent last, and Arrival when that arrived, see [Arrivals].
	Last    int
	Arrival float64
	// Ready is the first frame that the result of Last serves; 0: it has none yet. Model is that of the result, and Late
	// how much later than predicted its frames may arrive. Began is the frame with which its present second began, and
	// Lost the sum of what its frames from then to Ready have lost, see [Server.Serve]. They are of [Gearshift].
	Ready int
	Model int
	Late  float64
	Began int
	Lost  float64
	// Waiting marks a candidate that is not served yet.
	Waiting bool
	// Given fixes what is not zero of the setting. If it fixes both, the SLA has no say in it.
	Given Setting
}

// Setting says how often a client sends, and the largest batch that its requests may be in.
type Setting struct {
	Interval int // frames from one request to the next; 0: none keeps the SLA
	Batch    int
}

// Size is a smaller one of a server's.
type Size struct {
	// Latency is that of a batch by its size, the first of one request.
	Latency []float64
	// Gap is the accuracy that its results lose beside those of the server's first model.
	Gap float64
}

// Server runs batches.
type Server struct {
	// Latency is that of a batch of its first model, to which SLAs relate, by its size, the first of one request.
	Latency []float64
	// Smaller are its other models, for [Gearshift].
	Smaller []Size
	// Grace is the part of a batch's latency that a plan leaves free after it, for requests that are late (ARISE-9).
	Grace float64
	// Longest bounds the interval of clients that lose next to nothing.
	Longest int
}

// Slot returns the time that a plan takes for a batch of n requests.
func (s *Server) Slot(n int) float64 { return (1 + s.Grace) * s.Latency[n-1] }

// EndToEnd returns the frames from one to the first that its result serves, in a batch of n that it does not wait
// for.
func (s *Server) EndToEnd(c *Client, n int) int { return frames(c.Network + s.Latency[n-1]) }

// Reference returns the mean stride of the setup to which SLAs relate: a server for the client alone, with batches
// of one as often as it can (ARISE-4).
func (s *Server) Reference(c *Client) float64 {
	return MeanStride(s.EndToEnd(c, 1), max(1, frames(s.Latency[0])))
}

// Capacity returns how many clients of a setting the server carries.
func (s *Server) Capacity(x Setting) float64 {
	if x.Interval < 1 {
		return 0
	}
	return float64(x.Batch) / s.Slot(x.Batch) * float64(x.Interval)
}

// Best returns the setting with the most capacity that keeps the client's SLA, as if all clients were like it
// (ARISE-5). Of equal capacities it is the smaller batch. Without one the Interval is 0.
func (s *Server) Best(c *Client) (best Setting) {
	if c.Given.Interval > 0 && c.Given.Batch > 0 {
		return c.Given
	}
	for n := 1; n <= len(s.Latency); n++ {
		if c.Given.Batch > 0 && n != c.Given.Batch {
			continue
		}
		x := Setting{s.longest(c, n), n}
		if c.Given.Interval > x.Interval {
			continue
		}
		x.Interval = cmp.Or(c.Given.Interval, x.Interval)
		if x.Interval > 0 && s.Capacity(x) > s.Capacity(best)*(1+Same) {
			best = x
		}
	}
	return best
}

// longest returns the longest interval that keeps the client's SLA in batches of n; 0 if none does.
func (s *Server) longest(c *Client, n int) int {
	if !(c.Rate > 0) {
		return s.Longest
	}
	// The mean stride of an interval L is e2e + (L−1)/2.
	room := (c.SLA+Same)/c.Rate + s.Reference(c) - float64(s.EndToEnd(c, n))
	return int(min(float64(s.Longest), math.Floor(max(0, 2*room+1))))
}

// Drop returns the accuracy that the client loses beyond the reference with that mean stride.
func (s *Server) Drop(c *Client, stride float64) float64 { return c.Rate * (stride - s.Reference(c)) }

// MeanStride returns the mean stride of a client that sends every interval frames, and has results after so many
// (ARISE-2).
func MeanStride(endToEnd, interval int) float64 { return float64(endToEnd) + float64(interval-1)/2 }

// Rate estimates the accuracy that a client loses with each frame of stride: drop is what its tracker had lost on a
// frame of which the server's result has come, tracked over that stride (ARISE-3).
func Rate(drop float64, stride int) float64 { return max(0, drop) / float64(max(1, stride)) }

// frames returns the whole frames that a time takes.
func frames(t float64) int { return int(math.Ceil(t - Same)) }
