package operate

import (
	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/streaming"
)

// NewOffloadCommand returns the command group `gearshift offload`.
func NewOffloadCommand() *cobra.Command {
	group := cli.Group("offload", "Plan which frames streaming clients send, and see how a router serves them", newOffloadPlan(), newOffloadStatus(), newOffloadWatch())
	group.Long = `A streaming client sends some of its frames to a server, and tracks the last result by
itself meanwhile. These commands plan which frames it sends and when, so that a server
carries as many clients as its batches allow, and each keeps its accuracy; and show how a
running router serves such clients.`
	return group
}

func newOffloadPlan() *cobra.Command {
	command := &cobra.Command{
		Use:   "plan --in FILE.json",
		Short: "Print the schedule of streaming clients as JSON",
		Long: `Reads a server's batches and its clients, and prints for each client how often it sends
and the largest batch that it tolerates ("settings", with the clients of its kind that the
server carries), the batches from t0 on, and the clients that are served, each of which
keeps its SLA: the accuracy that it may lose beyond a server of its own.

latency_ms is the time of a batch by its size. grace is the part of it that is left free for
requests that are late. drop_rate is the accuracy that a client's tracker loses with each
frame. t0, when the running batch ends, horizon (default: a second), last_frame and
last_arrival are in frames of fps (60). interval and batch, if given, are used in place of what is
found. A client that is waiting is served if there is room; of one without last_frame
only the setting is planned. policy is "arise", the default, which packs requests and has
clients send accordingly, "arise-alpha", which runs what has arrived, or "gearshift", which
serves by deadlines.

  {"grace": 0.1, "latency_ms": {"1": 18, "2": 23, "4": 33}, "t0": 11,
   "clients": [{"id": 1, "sla": 0.02, "drop_rate": 0.005, "network_ms": 15,
                "last_frame": 6, "last_arrival": 8}]}`,
	}
	cli.Plan(command, "clients and their server", streaming.Plan)
	return command
}
