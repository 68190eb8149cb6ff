package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// admin posts to the admin API of the server.
func (s setup) admin(t *testing.T, path string, body any) lab.Answer {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return s.Server.PostJSON(t.Context(), s.Server.Admin()+path, raw)
}

// configure sets configuration units.
func (s setup) configure(t *testing.T, units map[string]any) {
	t.Helper()
	if a := s.admin(t, "/gatehouse/config/import", units); a.Status != http.StatusOK {
		t.Fatalf("config import = %d %s: %v", a.Status, a.Body, a.Err)
	}
}

// mailDown is F20: requests never wait for the mail server, whatever it does, and every mail arrives once it works
// again, even after kill -9.
func mailDown(t *testing.T, rep *report) {
	server, err := lab.NewMailServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	s := start(t, lab.Config{Gatehouse: fmt.Sprintf("\t\tmail smtp %s {\n\t\t\tfrom no-reply@example.com\n\t\t\ttimeout 2s\n\t\t}",
		server.Addr)}, 1)
	s.configure(t, map[string]any{"email_notifications": map[string]any{"welcome": map[string]any{"on_api_enabled": true}}})
	per := cycles(20, 200)
	n := 0
	add := func() []time.Duration {
		t.Helper()
		var took []time.Duration
		for range per {
			n++
			a := s.admin(t, "/gatehouse/persons", map[string]any{"username": fmt.Sprintf("mail-%d@example.com", n)})
			if a.Status != http.StatusOK {
				t.Fatalf("a person with a welcome = %d %s: %v", a.Status, a.Body, a.Err)
			}
			took = append(took, a.Took)
		}
		slices.Sort(took)
		return took
	}
	base := add()
	if _, ok := eventually(t.Context(), 20*time.Second, func() bool { return len(server.Mails()) >= n }); !ok {
		t.Fatalf("a working server has %d mails, want %d", len(server.Mails()), n)
	}
	for _, mode := range []string{lab.Forget, lab.Down, lab.Later, lab.Never, lab.Slow} {
		server.Be(mode)
		got := add()
		if m, limit := median(got), 3*median(base)+20*time.Millisecond; m > limit {
			t.Errorf("%s: a request takes %v, %v before: it waits for the mail server", mode, m, median(base))
		}
		lab.Pause(t.Context(), 1500*time.Millisecond) // time for some tries
		rep.add("%s: request p50 %d ms, max %d ms (%d, %d before)", mode, median(got).Milliseconds(), got[len(got)-1].Milliseconds(),
			median(base).Milliseconds(), base[len(base)-1].Milliseconds())
	}
	s.Server.Kill()
	server.Be(lab.Good)
	s.restart(t)
	arrived := func() (ids map[string]int, recipients map[string]bool) {
		ids, recipients = map[string]int{}, map[string]bool{}
		for _, m := range server.Mails() {
			ids[m.ID]++
			recipients[m.To] = true
		}
		return ids, recipients
	}
	back, ok := eventually(t.Context(), 3*time.Minute, func() bool {
		_, recipients := arrived()
		return len(recipients) >= n
	})
	ids, recipients := arrived()
	if !ok || len(ids) != n {
		t.Errorf("%d mails for %d persons have arrived, want %d each", len(ids), len(recipients), n)
	}
	same := map[string]string{}
	for _, m := range server.Mails() {
		text := m.Body[:min(len(m.Body), 400)]
		if i := strings.Index(text, "Hello"); i >= 0 { // after the boundary, which is random each time
			text = text[i:]
		}
		text, _, _ = strings.Cut(text, "\r\n--")
		if old, seen := same[m.ID]; seen && old != text {
			t.Errorf("a mail came again with other words: %q, then %q", old, text)
		}
		same[m.ID] = text
	}
	rep.add("%d mails, %d came again, all there %d ms after the server was back and kill -9", n,
		len(server.Mails())-len(ids), back.Milliseconds())
	if log := s.Server.LogText(); strings.Contains(log, "mail-1@example.com") && strings.Contains(log, "not taken") &&
		strings.Contains(log[strings.Index(log, "not taken"):], "mail-1@example.com") {
		t.Error("the log contains the address of a mail")
	}
}

// breachDown is F21: a service of breached passwords that is down, slow or answers garbage delays no change of a
// password, and causes no 5xx.
func breachDown(t *testing.T, rep *report) {
	p := partner(t, false)
	c := lab.Config{Identity: fmt.Sprintf("\t\t\tbreach {\n\t\t\t\turl %s/range/\n\t\t\t}", p.Origin())}
	s := start(t, c, 1)
	policy := map[string]any{
		"min_length": 8, "max_length": 256, "lower_case_char_required": false, "upper_case_char_required": false,
		"special_char_required": false, "breached_password_blocked": true,
	}
	s.configure(t, map[string]any{"password_policy": policy})
	set := func(password string) lab.Answer {
		t.Helper()
		return s.admin(t, "/gatehouse/persons/password", map[string]any{"person": lab.Username, "password": password})
	}
	if a := set(lab.BreachedPassword); a.Status != http.StatusBadRequest || !strings.Contains(string(a.Body), "breach") {
		t.Errorf("a password of a breach = %d %s, want 400", a.Status, a.Body)
	}
	good := set("nobody knows this password")
	if good.Status != http.StatusOK {
		t.Fatalf("another password = %d %s", good.Status, good.Body)
	}
	const most = 10 * time.Second // more than the timeout and a hash on a busy machine, less than a service that hangs
	for _, mode := range []string{lab.Down, lab.Slow, lab.HalfOpen, lab.Drip, lab.Garbage, lab.Endless} {
		p.Be(mode)
		a := set("nobody knows this password, " + mode)
		if a.Status != http.StatusOK || a.Took > most {
			t.Errorf("%s: a password is set with %d %s after %v, want 200 within %v", mode, a.Status, a.Body, a.Took, most)
		}
		rep.add("%s %d ms", mode, a.Took.Milliseconds())
	}
	caddyfile := strings.Replace(s.Server.Caddyfile(s.Server.Ports, s.Server.Secrets, "closed"), "/range/\n",
		"/range/\n\t\t\t\ton_failure closed\n", 1)
	if a := s.Server.Load(t.Context(), caddyfile); a.Status != http.StatusOK {
		t.Fatalf("Load = %d %s: %v", a.Status, a.Body, a.Err)
	}
	p.Be(lab.Down)
	if a := set("nobody knows this password, closed"); a.Status != http.StatusServiceUnavailable || a.Took > most {
		t.Errorf("closed: %d %s after %v, want 503", a.Status, a.Body, a.Took)
	}
	p.Be(lab.Good)
	if a := set("nobody knows this password, again"); a.Status != http.StatusOK {
		t.Errorf("closed, and the service is back: %d %s, want 200", a.Status, a.Body)
	}
	rep.add("good %d ms", good.Took.Milliseconds())
}
