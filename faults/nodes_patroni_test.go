package faults

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// patroniFailsOver is N8: Patroni keeps the database. Its server is killed, and every fourth time the machine with it,
// which Patroni notices when its term has ended.
func patroniFailsOver(t *testing.T, rep *report) {
	p, err := lab.NewPatroni(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Remove)
	c := &nodes{rand: random()}
	var databases []string
	for _, m := range p.Members {
		databases = append(databases, fmt.Sprintf("127.0.0.1:%d", m.Port))
	}
	c.serve(t, databases, "", "")
	n := cmp.Or(*more, 12)
	var servers, machines []time.Duration
	for i := range n {
		c.round(t, "after a failover", i == n-1, func() {
			leader := p.Leader(t.Context())
			if leader == nil {
				t.Fatal("Patroni has no leader")
			}
			begin := time.Now()
			machine := i%4 == 3
			if machine {
				leader.Kill()
			} else {
				leader.KillServer()
			}
			// Everything was refused until a node writes.
			_, ok := eventually(t.Context(), time.Minute, func() bool { return c.list[i%2].Issue(t.Context()).Outcome() == lab.OK })
			if !ok {
				t.Fatal("no failover within a minute")
			}
			took := time.Since(begin)
			c.writes(t, c.list...)
			if machine {
				machines = append(machines, took)
				if err := leader.Start(); err != nil {
					t.Fatal(err)
				}
				return
			}
			servers = append(servers, took)
		})
		if err := p.Settled(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.report(t, rep)
	rep.add("%d servers killed, 503 for p50 %d ms, max %d ms", len(servers), median(servers).Milliseconds(),
		slices.Max(servers).Milliseconds())
	if len(machines) > 0 {
		rep.add("%d machines lost, 503 for p50 %d ms, max %d ms", len(machines), median(machines).Milliseconds(),
			slices.Max(machines).Milliseconds())
	}
	if m := slices.Max(servers); m > 20*time.Second {
		t.Errorf("the failover took %v", m)
	}
}
