package serving_test

import (
	"net/http"
	"strings"
	"testing"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
)

// gapped is a server whose task "copy" is answered by the large variant alone, and its core.
func gapped(t *testing.T) (*rig, *router.Core) {
	t.Helper()
	full := testTable(t)
	full.Tasks[1].Quality, full.Tasks[1].Without = []float64{0, 1}, 1
	table, err := fleet.NewTable(full.Tasks, full.Variants, full.Hosts, full.Replicas)
	if err != nil {
		t.Fatal(err)
	}
	core, err := router.New(router.Config{Ledger: fleet.NewLedger(table), Fallback: fallback{}, Balancer: emptiest{}})
	if err != nil {
		t.Fatal(err)
	}
	return newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) { o.Router = core }), core
}

// Requests go to what answers their task: those without a task to a task that the named
// variant answers, and the others of it are refused, with what would do.
func TestTasksWithGaps(t *testing.T) {
	g, _ := gapped(t)
	pinned := strings.Replace(ask, "auto", "small", 1)
	for name, x := range map[string]struct {
		body, task string
		status     int
		says       string
	}{
		"auto":              {ask, "copy", http.StatusOK, ""},
		"the other task":    {pinned, "chat", http.StatusOK, ""},
		"no task":           {pinned, "", http.StatusOK, ""},
		"one that does not": {pinned, "copy", http.StatusBadRequest, `"small" does not answer task "copy"; auto or large would`},
		"the one that does": {strings.Replace(ask, "auto", "large", 1), "copy", http.StatusOK, ""},
	} {
		header := []string{"x-gearshift-explain", "1"}
		if x.task != "" {
			header = append(header, "x-gearshift-task", x.task)
		}
		w := g.do("POST", chat, x.body, header...)
		if w.Code != x.status || !strings.Contains(w.Body.String(), strings.ReplaceAll(x.says, `"`, `\"`)) {
			t.Errorf("%s: status %d: %s", name, w.Code, w.Body)
			continue
		}
		if x.status == http.StatusOK && x.task == "copy" {
			if e := explanation(t, w); e.Variant != "large" || e.Alternatives[0].Available || e.Alternatives[0].Unavailable != "does not answer the task" {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
}

// The default task of a variant that does not answer it is the first that it does.
func TestDefaultTaskOfAVariant(t *testing.T) {
	full := testTable(t)
	full.Tasks[0].Quality, full.Tasks[0].Without = []float64{0.5, 0}, 2
	table, err := fleet.NewTable(full.Tasks, full.Variants, full.Hosts, full.Replicas)
	if err != nil {
		t.Fatal(err)
	}
	core, err := router.New(router.Config{Ledger: fleet.NewLedger(table), Fallback: fallback{}, Balancer: emptiest{}})
	if err != nil {
		t.Fatal(err)
	}
	g := newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) { o.Router = core })
	w := g.do("POST", chat, strings.Replace(ask, "auto", "large", 1), "x-gearshift-explain", "1")
	if e := explanation(t, w); w.Code != http.StatusOK || e.Task != "copy" || e.Variant != "large" {
		t.Errorf("status %d, %+v", w.Code, e)
	}
}

// An explanation says which variants are not loaded.
func TestExplanationsOfWhatIsNotLoaded(t *testing.T) {
	g, core := gapped(t)
	for _, x := range []struct {
		a, b fleet.State // of the small ones
		want string
	}{
		{fleet.Cold, fleet.Cold, "not loaded"}, {fleet.Cold, fleet.Warm, "asleep"}, {fleet.Loading, fleet.Warm, "loading"}, {fleet.Cold, fleet.Up, ""},
	} {
		core.Ledger().Place(smallOnA, x.a)
		core.Ledger().Place(smallOnB, x.b)
		e := explanation(t, g.do("POST", chat, ask, "x-gearshift-explain", "1"))
		if small := e.Alternatives[0]; small.Unavailable != x.want || small.Available != (x.b == fleet.Up) {
			t.Errorf("%v and %v: %+v, want %q", x.a, x.b, small, x.want)
		}
	}
	core.Ledger().SetUp(smallOnB, false)
	if e := explanation(t, g.do("POST", chat, ask, "x-gearshift-explain", "1")); e.Alternatives[0].Available || e.Alternatives[0].Unavailable != "" {
		t.Errorf("of one that failed: %+v", e.Alternatives[0])
	}
}
