package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// remaining matches the rest of the quota of a site in its answers.
var remaining = regexp.MustCompile(`"client 12month";r=(\d+)`)

// quotaAfterKill is F23: what was counted of a quota more than a second before a kill still counts after it, nothing is
// counted twice, and at most what was counted in the last second is lost.
func quotaAfterKill(t *testing.T, rep *report) {
	ports, err := lab.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	const limit = 1000
	s := start(t, lab.Config{Sites: fmt.Sprintf(
		"http://localhost:%d {\n\tprotect %s {\n\t\tquota %d/12month per client\n\t}\n\treverse_proxy {echo}\n}", ports[0], lab.Scope, limit,
	)}, 1).Server
	a := s.Post(t.Context(), "/oauth/token", lab.MachineID, s.Machine, url.Values{"grant_type": {"client_credentials"}, "scope": {lab.Scope}})
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(a.Body, &answer); err != nil || answer.Token == "" {
		t.Fatalf("the token endpoint answered %d %s, %v", a.Status, a.Body, err)
	}
	site := fmt.Sprintf("http://localhost:%d/", ports[0])
	// use sends requests and returns how many of the quota are used afterwards.
	use := func(n int) (used int) {
		t.Helper()
		for range n {
			a := s.Get(t.Context(), site, "Authorization", "Bearer "+answer.Token)
			m := remaining.FindStringSubmatch(a.Header.Get("RateLimit"))
			if a.Status != http.StatusOK || m == nil {
				t.Fatalf("a request = %d %v with RateLimit %q", a.Status, a.Err, a.Header.Get("RateLimit"))
			}
			left, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			used = limit - left
		}
		return used
	}
	lost, cycles, known := 0, max(*more, 3), 0
	for range cycles {
		kept := use(20)
		if kept != known+20 {
			t.Fatalf("%d of the quota are used after %d, and 20 more", kept, known)
		}
		<-time.After(2 * time.Second) // for the write of the second
		last := use(7)
		s.Kill()
		if _, err := s.StartReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		known = use(1)
		if known < kept+1 || known > last+1 {
			t.Errorf("after kill -9 and one request, %d of the quota are used, want %d to %d", known, kept+1, last+1)
		}
		lost += last + 1 - known
	}
	rep.add("%d kills, %d of %d requests of the last second lost", cycles, lost, 7*cycles)
}
