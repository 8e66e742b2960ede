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

// health answers gRPC probes: liveness of the process and readiness of the router.
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

// update sets the services' statuses by the router's readiness.
func (h *health) update() {
	now := healthpb.HealthCheckResponse_SERVING
	if h.unready() != "" {
		now = healthpb.HealthCheckResponse_NOT_SERVING
	}
	for _, service := range []string{"", readiness, pb.ExternalProcessor_ServiceDesc.ServiceName} {
		h.SetServingStatus(service, now)
	}
}

// Check implements the health service, with the present status.
func (h *health) Check(ctx context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	h.update()
	return h.Server.Check(ctx, r)
}

// watchEvery bounds the delay with which a client that watches the health hears of a change.
const watchEvery = time.Second

// watch updates the statuses for watching clients until the context ends.
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
