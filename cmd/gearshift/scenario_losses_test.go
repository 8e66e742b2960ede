package main

import (
	"fmt"
	"strings"
	"testing"
)

// twoCameras are two applications on two hosts, with a third that is empty.
const twoCameras = `tasks:
  - {name: door, total_ms: 100, rate: 4, primary: h1, quality: {small: 0.9, large: 1}}
  - {name: yard, total_ms: 100, rate: 2, primary: h2, quality: {small: 0.9, large: 1}}
variants: [{name: small, model: small}, {name: large, model: large}]
models: [{name: small, memory: 300MB, load_ms: 200}, {name: large, memory: 900MB, load_ms: 2000}]
hosts: [{name: h1, memory: 2GB}, {name: h2, memory: 2GB}, {name: h3, memory: 1GB}]
profiles: [{variant: small, batch_ms: {1: 5, 4: 12}}, {variant: large, batch_ms: {1: 20, 4: 60}}]
workload: {output_tokens: {distribution: none}}
failover: {policy: faillite, critical: 0%, headroom: 35%}
`

// The table has what answers each application of a host that dies, how well and when.
func TestCheckShowsWhatTheLossOfAHostDoes(t *testing.T) {
	file := write(t, "cameras.yaml", twoCameras)
	out := succeed(t, "scenario", "check", file)
	for _, want := range []string{
		"\nIf this host dies, which is noticed at once where connections are refused, and else after 70ms:\n", "host  loses           answers instead",
		"\nEach host with the size that answers most of those loaded at the start, the fleet answers about ",
		"h3    no application",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	row := func(host string) string {
		_, rest, _ := strings.Cut(out, "\n"+host+"    ")
		line, _, _ := strings.Cut(rest, "\n")
		return strings.Join(strings.Fields(line), " ")
	}
	// Each has the other's large one, which shares its memory, and is there at once: no load.
	for host, want := range map[string]string{"h1": "door small@h2 after 200ms, large@h2 after 200ms 1 → 0.9 → 1", "h2": "yard small@h1 after 200ms, large@h1 after 200ms 1 → 0.9 → 1"} {
		if got := row(host); got != want {
			t.Errorf("%s: %q, want %q in:\n%s", host, got, want, out)
		}
	}
}

// A fleet of which no loss is recovered is refused, with line and key; one of which some are not has a warning.
func TestCheckRefusesFailoverThatRecoversNothing(t *testing.T) {
	none := write(t, "none.yaml", strings.Replace(twoCameras, "headroom: 35%", "headroom: 1%", 1))
	fail(t, []string{"scenario", "check", none}, "none.yaml:9: failover: no application is answered again, whichever host dies: ")
	some := write(t, "some.yaml", strings.NewReplacer("rate: 4", "rate: 60", "4: 12}", "4: 20}", "headroom: 35%", "headroom: 20%").Replace(twoCameras))
	if code, _, stderr := gearshift(t, "scenario", "check", some); code != 0 || !strings.Contains(stderr, "some.yaml:9: failover: applications stay without an answer if one of these hosts dies: h1 (1 of 1)") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	folder := write(t, "folder.yaml", strings.Replace(twoCameras, "headroom: 35%", "models: nosuch", 1))
	for _, command := range []string{"check", "serve"} {
		args := []string{"scenario", "check", folder}
		if command == "serve" {
			args = []string{"serve", "--scenario", folder, "--policy", "slackfit", "--store", folder + ".db", "--addr", "127.0.0.1:0"}
		}
		fail(t, args, `failover.models: there is no folder "nosuch" here`)
	}
}

// Of many hosts the worst have a line each, and the others one together.
func TestCheckOfManyHostsIsShort(t *testing.T) {
	var tasks, hosts []string
	for i := range 60 {
		tasks = append(tasks, fmt.Sprintf("  - {name: a%d, total_ms: 100, rate: 1, quality: {small: 0.9, large: 1}}", i))
	}
	for i := range 15 {
		hosts = append(hosts, fmt.Sprintf("{name: h%d, memory: 4GB}", i))
	}
	_, rest, _ := strings.Cut(twoCameras, "variants:")
	before, after, _ := strings.Cut("tasks:\n"+strings.Join(tasks, "\n")+"\nvariants:"+rest, "hosts: [")
	_, after, _ = strings.Cut(after, "]\n")
	out := succeed(t, "scenario", "check", write(t, "many.yaml", before+"hosts: ["+strings.Join(hosts, ", ")+"]\n"+after))
	_, table, _ := strings.Cut(out, "If this host dies")
	if !strings.Contains(table, "\nhost      loses  answered at once") || strings.Count(table, "\nh") != 11 || !strings.Contains(table, "\n5 others  20     0 with a backup") {
		t.Errorf("%s", table)
	}
}

// Without failover the tasks are named that a loss leaves without a replica.
func TestCheckNamesTasksThatALossLeaves(t *testing.T) {
	if out := succeed(t, "scenario", "check", "tiny"); !strings.Contains(out, "\nIf gpu0 dies, nothing answers: it is the only host.\n") {
		t.Errorf("%s", out)
	}
	if out := succeed(t, "scenario", "check", "titan-rtx-opt"); !strings.Contains(out, "\nIf one host dies, each task has a replica on another.\n") {
		t.Errorf("%s", out)
	}
}
