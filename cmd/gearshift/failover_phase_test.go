package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"gearshift/serving/control/failover"
)

// The ways in which a host is lost.
const (
	killed      = "SIGKILL"
	stopped     = "SIGSTOP"
	droppedLink = "dropped link"
)

var lossKinds = []string{killed, stopped, droppedLink}

// phase is a router with a policy, its engines and clients, and the losses that it goes through.
type phase struct {
	*failoverCheck
	policy   string
	scenario string // the file
	url      string
	admin    string
	port     string // of the admin listener
	router   *process
	engines  []*process
	losses   []loss
	began    time.Time
	calm     time.Duration // without losses, since it began
	took     time.Duration
	busy     float64 // share of the processors that engines, router and clients took without losses

	mu      sync.Mutex // protects what follows
	notices []failover.Notice
	asked   []clientRequest
}

// loss is one of a host.
type loss struct {
	kind     string
	host     int
	at, back time.Time     // when it was lost, and when what had befallen it ended
	refuses  time.Duration // of one killed: how long after that its port refused
	affected []failover.Application
	after    *failover.Situation // just before it came back
}

// phase plays losses under a policy.
func (f *failoverCheck) phase(policy, critical string, losses int, kinds []string) {
	p := &phase{failoverCheck: f, policy: policy}
	p.start(critical)
	p.settle()
	f.t.Logf("%s: all applications are on their primaries", policy)
	stop := p.clients()
	p.measureLoad(losses)
	for i := range losses {
		p.lose(kinds[i%len(kinds)], (i+i/failoverHosts)%failoverHosts)
	}
	stop()
	p.took = time.Since(p.began)
	p.end()
	f.phases = append(f.phases, p)
}

// start starts the engines and the router.
func (p *phase) start(critical string) {
	t := p.t
	t.Setenv("GEARSHIFT_ADMIN_TOKEN", "token-of-this-test")
	t.Setenv("GEARSHIFT_FLEET_TOKEN", "token-of-the-fleet")
	_, p.port, _ = net.SplitHostPort(freeAddr(t))
	p.engines = make([]*process, failoverHosts)
	urls := make([]string, failoverHosts)
	for h := range failoverHosts {
		urls[h] = p.net.reach(h)
	}
	p.scenario = write(t, p.policy+".yaml", p.failoverCheck.scenario(p.policy, critical, urls))
	for h := range failoverHosts {
		p.engine(h)
	}
	listens, _ := p.net.admin(0, p.port)
	store := filepath.Join(t.TempDir(), "store.db")
	p.router = startProcess(t, "serve", "--scenario", p.scenario, "--addr", "127.0.0.1:0", "--admin-addr", listens, "--store", store, "--failover-state", store+".failover")
	p.url, p.admin = "http://"+p.router.listens(t), "http://127.0.0.1:"+p.port
	p.subscribe()
}

// engine starts the host's engine.
func (p *phase) engine(host int) {
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	_, router := p.net.admin(host, p.port)
	args := append(p.net.prefix(host), self, "engine", "--addr", p.net.engine(host), "--agent", router, "--agent-host", hostName(host))
	if p.dir != "" {
		args = append(args, "--repository", p.dir)
	} else {
		args = append(args, "--scenario", p.scenario, "--host", hostName(host))
	}
	e := &process{command: exec.Command(args[0], args[1:]...), log: &processLog{addrs: make(chan string, 8)}, ended: make(chan struct{})}
	e.start(p.t)
	p.engines[host] = e
	p.net.lead(host, e.listensWithin(p.t, time.Minute))
}

func hostName(host int) string { return "h" + string(rune('1'+host)) }

// subscribe keeps what the router tells of failovers.
func (p *phase) subscribe() {
	follow(p.t, p.url, func(n failover.Notice) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.notices = append(p.notices, n)
	})
}

// outages are the losses of hosts.
func (p *phase) outages() (list []hostLoss) {
	for _, x := range p.losses {
		list = append(list, hostLoss{hostName(x.host), x.kind, x.at, x.back})
	}
	return list
}

// situation is how the router's failover stands.
func (p *phase) situation() *failover.Situation {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.admin+"/admin/failover", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("GEARSHIFT_ADMIN_TOKEN"))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatalf("%v; the router's log ends:\n%s", err, lastLines(p.router.log.String(), 4000))
	}
	defer func() { _ = response.Body.Close() }()
	var s failover.Situation
	if err := json.NewDecoder(response.Body).Decode(&s); err != nil || response.StatusCode != http.StatusOK {
		p.t.Fatalf("the situation: status %d, %v", response.StatusCode, err)
	}
	return &s
}

// settledFor is how long all has to be well for it to be settled.
const settledFor = time.Second

// settle waits until all hosts are up, all applications are on their primaries in full, with
// backups where any are held ready, and nothing is being loaded.
func (p *phase) settle() {
	p.t.Helper()
	why, since := "", time.Now()
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if why = p.unsettled(p.situation()); why != "" {
			since = time.Now()
		} else if time.Since(since) > settledFor {
			return
		}
	}
	p.t.Fatalf("%s: not settled: %s; the router's log ends:\n%s", p.policy, why, lastLines(p.router.log.String(), 6000))
}

// unsettled says what a situation lacks; empty if nothing.
func (p *phase) unsettled(s *failover.Situation) string {
	if p.policy == "gearshift" && s.Unprotected > 0 {
		return fmt.Sprintf("%d applications are unprotected", s.Unprotected)
	}
	for _, x := range s.Hosts {
		switch {
		case x.State != "up":
			return x.Name + " is " + x.State
		case x.Agent == nil:
			return x.Name + " has no agent"
		case x.Loading > 0:
			return x.Name + " is loading"
		}
	}
	for _, a := range s.Applications {
		if _, host, _ := strings.Cut(a.Active, "@"); host != a.Primary || a.Quality != a.Full {
			return a.Name + " is answered by " + a.Active + ", of " + a.Primary
		}
	}
	return ""
}

// The times of a loss: how long it lasts in the real run, and how long all is well before the next.
const (
	lossLasts = 4 * time.Second
	wellFor   = 500 * time.Millisecond
)

// lasts is for how long hosts are lost.
func (p *phase) lasts() time.Duration {
	if !p.real {
		return lossLasts / 2
	}
	return lossLasts
}

// lose has a host lost for a while, in one of the ways.
func (p *phase) lose(kind string, host int) {
	p.settle()
	time.Sleep(wellFor + time.Duration(len(p.losses)*37%100)*time.Millisecond) // not in step with heartbeats
	x := loss{kind: kind, host: host}
	for _, a := range p.situation().Applications {
		if strings.HasSuffix(a.Active, "@"+hostName(host)) {
			x.affected = append(x.affected, a)
		}
	}
	e := p.engines[host]
	x.at = time.Now()
	switch kind {
	case killed:
		_ = e.command.Process.Kill()
		x.refuses = p.refuses(host, x.at)
	case stopped:
		_ = e.command.Process.Signal(syscall.SIGSTOP)
	default:
		p.net.cut(host)
	}
	p.recovers(&x)
	p.t.Logf("%s: loss %d, %s of %s with %d applications", p.policy, len(p.losses)+1, kind, hostName(host), len(x.affected))
	x.after = p.situation()
	switch kind {
	case killed:
		<-e.ended
		p.engine(host)
	case stopped:
		_ = e.command.Process.Signal(syscall.SIGCONT)
	default:
		p.net.heal(host)
	}
	x.back = time.Now()
	p.losses = append(p.losses, x)
}

// refuses waits until the port of a host's killed engine refuses connections, and returns how long that
// took: the system gives its memory back first.
func (p *phase) refuses(host int, killed time.Time) time.Duration {
	u, err := url.Parse(p.net.reach(host))
	if err != nil {
		p.t.Fatal(err)
	}
	for end := killed.Add(p.lasts()); time.Now().Before(end); time.Sleep(time.Millisecond) {
		conn, err := net.DialTimeout("tcp", u.Host, p.lasts())
		if err == nil {
			_ = conn.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	return time.Since(killed)
}

// recovers waits as long as a loss lasts, and until the failover is over.
func (p *phase) recovers(x *loss) {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if time.Since(x.at) < p.lasts() {
			continue
		}
		s := p.situation()
		if s.Last != nil && !s.Last.Open {
			return
		}
	}
	p.t.Errorf("%s of %s: the failover is not over after two minutes", x.kind, hostName(x.host))
}

// calmForEach sets the time without losses before the first, for each loss.
const calmForEach = 10 * time.Second

// measureLoad finds which share of the processors the run takes without losses.
func (p *phase) measureLoad(losses int) {
	p.calm = time.Second
	if p.real && len(p.phases) == 0 {
		p.calm = time.Duration(losses) * calmForEach
	} else if p.real {
		p.calm = 5 * time.Second
	}
	pids := []int{p.router.command.Process.Pid, os.Getpid()}
	for _, e := range p.engines {
		pids = append(pids, e.command.Process.Pid)
	}
	p.began = time.Now()
	before := processorTime(pids)
	time.Sleep(p.calm)
	p.busy = (processorTime(pids) - before).Seconds() / time.Since(p.began).Seconds()
}

// end ends the router and the engines.
func (p *phase) end() {
	p.router.stop(p.t)
	for _, e := range p.engines {
		e.kill()
	}
}

// lostApplications are those of which nothing answers.
func (x *loss) lostApplications() (n int) {
	for _, was := range x.affected {
		for _, a := range x.after.Applications {
			if a.Name == was.Name && (a.Active == "" || strings.HasSuffix(a.Active, "@"+hostName(x.host))) {
				n++
			}
		}
	}
	return n
}

// processorTime is what the processes have used so far; zero where the system does not say.
func processorTime(pids []int) (sum time.Duration) {
	for _, pid := range pids {
		sum += processorTimeOf(pid)
	}
	return sum
}
