package picker

import (
	"context"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// The services whose health gateways and Kubernetes ask for.
const (
	liveness  = "liveness"
	readiness = "readiness"
)

// health answers probes by gRPC: the process is alive, and whether the router is ready.
type health struct {
	*grpchealth.Server
	unready func() string
}

func newHealth(unready func() string) *health {
	h := &health{grpchealth.NewServer(), unready}
	h.SetServingStatus(liveness, healthpb.HealthCheckResponse_SERVING)
	h.update()
	return h
}

func (h *health) register(s *grpc.Server) { healthpb.RegisterHealthServer(s, h) }

// update sets the statuses of the services that need the router to be ready.
func (h *health) update() {
	now := healthpb.HealthCheckResponse_SERVING
	if h.unready() != "" {
		now = healthpb.HealthCheckResponse_NOT_SERVING
	}
	for _, service := range []string{"", readiness, pb.ExternalProcessor_ServiceDesc.ServiceName} {
		h.SetServingStatus(service, now)
	}
}

// Check implements the health service, by what holds at this moment.
func (h *health) Check(ctx context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	h.update()
	return h.Server.Check(ctx, r)
}

// watchEvery is how late a client that watches the health may hear of a change.
const watchEvery = time.Second

// watch keeps the statuses up to date for clients that watch them, until the context ends.
func (h *health) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			h.update()
		case <-ctx.Done():
			h.Shutdown()
			return
		}
	}
}
