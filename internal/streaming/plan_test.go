package streaming

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func plannedClients(t *testing.T, text string) *plannedOffload {
	t.Helper()
	p, err := Plan("clients.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p.(*plannedOffload)
}

const table = `"latency_ms": {"1": 18, "2": 23, "3": 28, "4": 33, "5": 38, "6": 43, "8": 53}`

// Settings are those of ARISE-5, grace costs capacity alone, and clients that have sent nothing are in no batch.
func TestPlannedSettings(t *testing.T) {
	for grace, capacity := range map[string]float64{"0": 16.16, "0.1": 14.69} {
		p := plannedClients(t, `{"grace": `+grace+`, `+table+`, "clients": [{"id": 7, "sla": 0.02, "drop_rate": 0.005, "network_ms": 15}]}`)
		want := &plannedOffload{Settings: []offloadSetting{{7, 8, 4, capacity}}, Batches: []offloadBatch{}, Kept: []int{}, MS: p.MS}
		if !reflect.DeepEqual(p, want) {
			t.Errorf("grace %s: %+v, want %+v", grace, p, want)
		}
	}
}

// The clients of ARISE's Fig. 10, whose interval and batch are given: packed by Algorithm 1.
func TestPlannedBatches(t *testing.T) {
	p := plannedClients(t, `{"latency_ms": {"1": 25, "2": 33.3333333333}, "t0": 11, "horizon": 6, "clients": [
	  {"id": 1, "interval": 3, "batch": 2, "last_frame": 6, "last_arrival": 8}, {"id": 2, "interval": 3, "batch": 2, "last_frame": 9, "last_arrival": 11},
	  {"id": 3, "interval": 4, "batch": 2, "last_frame": 12, "last_arrival": 9}]}`)
	want := []offloadBatch{{11, []offloadRequest{{1, 9}, {3, 14}}}, {13, []offloadRequest{{1, 11}, {2, 11}}}, {15, []offloadRequest{{1, 13}, {2, 13}}}, {17, []offloadRequest{{3, 20}}}}
	if !reflect.DeepEqual(p.Batches, want) || !slices.Equal(p.Kept, []int{1, 2, 3}) {
		t.Errorf("%+v, want %+v", p, want)
	}
}

// Who is not served is named with the reason: for want of room, or because nothing keeps its SLA.
func TestPlannedDrops(t *testing.T) {
	var clients []string
	for i := range 40 {
		clients = append(clients, fmt.Sprintf(`{"id": %d, "sla": 0.02, "drop_rate": 0.005, "network_ms": 15, "last_frame": %d, "last_arrival": %d, "waiting": %v}`, i, i%8, i%8+2, i >= 30))
	}
	clients = append(clients, `{"id": 40, "sla": 0, "drop_rate": 0.5, "batch": 8, "last_frame": 6, "last_arrival": 8}`)
	p := plannedClients(t, `{`+table+`, "t0": 11, "clients": [`+strings.Join(clients, ", ")+`]}`)
	if len(p.Kept) < 8 || len(p.Kept)+len(p.Dropped) != 41 || !strings.Contains(p.Dropped[0].Why, "no room") || !strings.Contains(p.Dropped[len(p.Dropped)-1].Why, "no interval") {
		t.Errorf("kept %v, dropped %+v", p.Kept, p.Dropped)
	}
}

// A fault is named with its key, in one line.
func TestFaultyClients(t *testing.T) {
	const client = `{"id": 1, "sla": 0.02, "drop_rate": 0.005}`
	for text, want := range map[string]string{
		`{"latency_ms": {"2": 23}, "clients": [` + client + `]}`:                                                 "latency_ms: batch 1: missing",
		`{"latency_ms": {"x": 23}, "clients": [` + client + `]}`:                                                 `latency_ms: "x" is not the size of a batch`,
		`{` + table + `, "fps": 0, "clients": [` + client + `]}`:                                                 "fps: 0; want frames per second",
		`{` + table + `, "policy": "best", "clients": [` + client + `]}`:                                         `policy: "best"; want one of [arise arise-alpha gearshift]`,
		`{` + table + `, "clients": [` + client + `, ` + client + `]}`:                                           "clients[1]: the id 1 is there twice",
		`{` + table + `, "clients": [{"id": 1, "sla": 0.02}]}`:                                                   "clients[0]: drop_rate is missing",
		`{` + table + `, "clients": [{"id": 1, "sla": -1, "drop_rate": 0.1}]}`:                                   "clients[0]: sla -1 and drop_rate 0.1; want accuracies",
		`{` + table + `, "clients": [{"id": 1, "sla": 0.02, "drop_rate": 0.1, "last_frame": 3}]}`:                "clients[0]: last_frame and last_arrival belong together",
		`{` + table + `, "clients": [{"id": 1, "sla": 0.02, "drop_rate": 0.1, "batch": 9}]}`:                     "clients[0]: batch: 9; want a size from 1 to 8",
		`{` + table + `, "clients": [{"id": 1, "sla": 0.02, "drop_rate": 0.1, "intervall": 9}]}`:                 "intervall",
		`{` + table + `, "grace": 2, "clients": []}`:                                                             "grace: 2; want a part from 0 to 1",
		`{` + table + `, "t0": 1e9, "clients": [{"id": 1, "drop_rate": 1, "last_frame": 3, "last_arrival": 5}]}`: "clients[0]: last_arrival: 5 is long before t0",
	} {
		out, err := Plan("clients.json", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v; want %q", text, err, out, want)
		}
	}
}
