package picker

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"gearshift/serving/admission"
	"gearshift/serving/openai/wire"
)

// The names of the Endpoint Picker Protocol: metadata and header fields for the allowed endpoints, the picked ones, and
// the one that has answered.
const (
	subsetSpace    = "envoy.lb.subset_hint"
	subsetKey      = "x-gateway-destination-endpoint-subset"
	endpointSpace  = "envoy.lb"
	endpointKey    = "x-gateway-destination-endpoint"
	endpointServed = "x-gateway-destination-endpoint-served"
)

// valueOf returns the value of a field, which Envoy writes as bytes.
func valueOf(f *corepb.HeaderValue) string {
	if len(f.RawValue) > 0 {
		return string(f.RawValue)
	}
	return f.Value
}

// lengthOf returns the length of a body as its header announces it; below 0 if that says none.
func lengthOf(text string) int64 {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return n
	}
	return -1
}

// hostOf returns an address without its port.
func hostOf(at string) string {
	host, _, err := net.SplitHostPort(at)
	if err != nil {
		return at
	}
	return host
}

// subsetOf returns the addresses that the gateway allows: a list, or text with commas. Without any metadata all are
// allowed.
func subsetOf(m *corepb.Metadata) (list []string, limited bool) {
	v := m.GetFilterMetadata()[subsetSpace].GetFields()[subsetKey]
	if v == nil {
		return nil, false
	}
	values := []*structpb.Value{v}
	if l := v.GetListValue(); l != nil {
		values = l.Values
	}
	for _, v := range values {
		for at := range strings.SplitSeq(v.GetStringValue(), ",") {
			if at = strings.TrimSpace(at); at != "" {
				list = append(list, at)
			}
		}
	}
	return list, true
}

// servedBy returns the address of the replica that has answered; empty if the gateway does not report it.
func servedBy(m *corepb.Metadata) string {
	return m.GetFilterMetadata()[endpointSpace].GetFields()[endpointServed].GetStringValue()
}

func set(name, value string) *corepb.HeaderValueOption {
	return &corepb.HeaderValueOption{
		Header:       &corepb.HeaderValue{Key: name, RawValue: []byte(value)},
		AppendAction: corepb.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}

// mutation returns the changes from one header to another, without the gateway's own fields except those in also.
func mutation(from, to http.Header, also []*corepb.HeaderValueOption) *pb.HeaderMutation {
	m := &pb.HeaderMutation{SetHeaders: also}
	for name, values := range to {
		if ofGateway(name) || slices.Equal(from[name], values) {
			continue
		}
		for n, v := range values {
			f := set(strings.ToLower(name), v)
			if n > 0 {
				f.AppendAction = corepb.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
			}
			m.SetHeaders = append(m.SetHeaders, f)
		}
	}
	for name := range from {
		if _, kept := to[name]; !kept && !ofGateway(name) {
			m.RemoveHeaders = append(m.RemoveHeaders, strings.ToLower(name))
		}
	}
	return m
}

// ofGateway reports whether a field is the gateway's: it concerns the length of a message or its connection, or says
// where the request came from. Envoy finds no route for a request without X-Forwarded-Proto.
func ofGateway(name string) bool {
	switch name {
	case "Connection", "Content-Length", "Transfer-Encoding", "Host", "Keep-Alive", "Te", "Upgrade":
		return true
	}
	return wire.Forwarding(name) || strings.HasPrefix(name, "X-Envoy-")
}

// pick returns the message with the endpoint, and the header that it gets.
func (x *exchange) pick(to string, r *http.Request) *pb.ProcessingResponse {
	also := append(make([]*corepb.HeaderValueOption, 0, 8), set(endpointKey, to))
	if !x.bodiless && r.ContentLength >= 0 {
		also = append(also, set("content-length", strconv.FormatInt(r.ContentLength, 10)))
	}
	if path := r.URL.RequestURI(); x.path != path {
		also = append(also, set(":path", path))
	}
	return &pb.ProcessingResponse{
		Response: &pb.ProcessingResponse_RequestHeaders{RequestHeaders: &pb.HeadersResponse{Response: &pb.CommonResponse{
			ClearRouteCache: true, HeaderMutation: mutation(x.original, r.Header, also),
		}}},
		DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			endpointSpace: structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{endpointKey: structpb.NewStringValue(to)}}),
		}},
	}
}

// droppedFor returns the reason of a refusal as llm-d's pickers name it; empty if it is not about load or replicas.
func droppedFor(reason string) string {
	switch reason {
	case admission.ReasonFull, admission.ReasonSaturated:
		return "rejected-saturated"
	case admission.ReasonNoReplica, admission.ReasonAsleep, admission.ReasonHeld:
		return "rejected-no-endpoints"
	case admission.ReasonDeadline:
		return "rejected-ttl-expired"
	case admission.ReasonCancelled:
		return "rejected-context-cancelled"
	case admission.ReasonClosed:
		return "rejected-shutting-down"
	case admission.ReasonEvicted:
		return "evicted"
	}
	return ""
}
