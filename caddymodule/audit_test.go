package caddymodule_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/internal/calllog"
)

// recorded restarts the server, which writes what waits, and returns the calls that a search finds.
func recorded(t *testing.T, s *servertest.Server, search ...string) []calllog.Found {
	t.Helper()
	s.Stop()
	s.MustLoad()
	return servertest.Decode[[]calllog.Found](t, s.Run("", append([]string{"events", "calls", "--json"}, search...)...))
}

// TestAuditLog: calls that pass are in the log, with what came of them and without secrets.
func TestAuditLog(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = strings.Join([]string{
		`protect orders.read {`,
		`audit log`,
		`public /open`,
		`}`,
		`handle /orders {`,
		`request_body {`,
		`max_size 1MB`,
		`}`,
		"respond `{http.request.body}` 201",
		`}`,
		`error /broken 502`,
	}, "\n")
	s.MustLoad()
	token := s.Token()
	for _, path := range []string{"/orders?api_key=hunter2", "/broken", "/open"} {
		r := s.Request(http.MethodPost, "http://"+s.API+path, strings.NewReader("twelve bytes"))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("User-Agent", "shop/1.0")
		s.Do(r) //nolint:bodyclose // it is read and closed
	}
	s.Enters("unknown")
	all := recorded(t, s)
	if len(all) != 2 {
		t.Fatalf("calls = %+v, want the two that passed with a credential", all)
	}
	got := all[1]
	want := calllog.Found{Ref: got.Ref, Call: calllog.Call{
		At: got.At, Took: got.Took, Site: "http://" + s.API, Method: http.MethodPost, Path: "/orders", Verdict: "allow",
		Status: http.StatusCreated, Received: 12, Sent: 12, ClientID: "reports", IP: "127.0.0.1", UserAgent: "shop/1.0",
	}}
	if got != want || got.Ref == "" || got.At.IsZero() {
		t.Errorf("call = %+v, want POST /orders by reports with 201 and 12 bytes each way", got)
	}
	if all[0].Path != "/broken" || all[0].Status != http.StatusBadGateway {
		t.Errorf("call = %+v, want /broken with 502", all[0])
	}
	for _, c := range []struct {
		search string
		want   int
	}{
		{"--client reports", 2},
		{"--client other", 0},
		{"--path /ord*", 1},
		{"--path /ord", 0},
		{"--ip 192.0.2.1", 0},
		{"--site http://" + s.API, 2},
		{"--since 1h", 2},
		{"--until 1h", 0},
		{"--limit 1", 1},
	} {
		if found := recorded(t, s, strings.Fields(c.search)...); len(found) != c.want {
			t.Errorf("calls %s = %d, want %d", c.search, len(found), c.want)
		}
	}
	out := s.Run("", "events", "calls") + s.Run("", "events", "verify")
	for _, want := range []string{"/calls: 2 events", "sealed      through event 2", "allow, status 201, 12 bytes received, 12 sent"} {
		if !strings.Contains(out, want) {
			t.Errorf("events = %s, want %q in it", out, want)
		}
	}
	if strings.Contains(out, "hunter2") || strings.Contains(out, token) {
		t.Errorf("events = %s, which has a secret", out)
	}
	s.Refused("--since", "", "events", "calls", "--since", "never")
}

// TestAuditOfRules: the calls that a rule lets pass are recorded as it says.
func TestAuditOfRules(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = strings.Join([]string{
		`protect orders.read {`,
		`allow {`,
		`name payroll`,
		`match path /pay`,
		`audit`,
		`}`,
		`allow {`,
		`match path /hr`,
		`audit log`,
		`}`,
		`allow {`,
		`match path /any`,
		`}`,
		`}`,
	}, "\n")
	s.MustLoad()
	token := s.Token()
	for _, path := range []string{"/pay", "/hr", "/any"} {
		r := s.Request(http.MethodGet, "http://"+s.API+path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		s.Do(r) //nolint:bodyclose // it is read and closed
	}
	if all := recorded(t, s); len(all) != 1 || all[0].Path != "/hr" || all[0].Rule == "" {
		t.Errorf("calls = %+v, want /hr", all)
	}
	out := s.Run("", "events", "list", "--type", "call.CallPassedEvent", "--client", "reports")
	if strings.Count(out, "GET http://") != 1 || !strings.Contains(out, s.API+"/pay: allow by payroll, status 200") {
		t.Errorf("events = %s, want /pay", out)
	}
	if out := s.Run("", "explain", "--token", token, "--url", "http://"+s.API+"/hr"); !strings.Contains(out, "allow") {
		t.Fatal(out)
	}
	if all := recorded(t, s); len(all) != 1 {
		t.Errorf("calls = %+v after explain, want no more", all)
	}
}

// TestAuditMistakes: each mistake is an error with file and line.
func TestAuditMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, site, want string }{
		{"a word that is unknown", "audit logs", "audit: unrecognized \"logs\""},
		{"twice", "audit\n\t\taudit log", "audit is already set"},
		{"in a rule that refuses", "deny {\n\t\t\tmatch path /x\n\t\t\taudit\n\t\t}", "unrecognized"},
	} {
		text := "{\n\tgatehouse {\n\t\tissuer https://auth.example.com\n\t}\n}\nauth.example.com {\n\tgatehouse\n}\n" +
			"api.example.com {\n\tprotect {\n\t\t" + c.site + "\n\t}\n}\n"
		_, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "Caddyfile:") {
			t.Errorf("%s: Load() = %v, want %q with file and line", c.name, err, c.want)
		}
	}
}

// TestAuditOfAnotherProxy: a gate for a site of another proxy records the calls that it lets pass. Their status and
// sizes are known to that proxy alone.
func TestAuditOfAnotherProxy(t *testing.T) {
	s := servertest.NewServer(t)
	s.Extra = strings.Join([]string{
		`forward_auth_from 127.0.0.1`, `forward_auth orders {`, `origins https://orders.example.com`, `scopes orders.read`, `audit log`,
		`limit 2/h per client`, `}`,
	}, "\n")
	s.MustLoad()
	token := s.Token()
	ask := func(credential string) int {
		t.Helper()
		r := s.Request(http.MethodGet, s.Issuer()+"/oauth/forward-auth?policy=orders", nil)
		for name, value := range map[string]string{
			"X-Forwarded-Proto": "https", "X-Forwarded-Host": "orders.example.com", "X-Forwarded-Method": "PUT",
			"X-Forwarded-Uri": "/orders/7?api_key=hunter2", "X-Forwarded-For": "192.0.2.7", "Authorization": "Bearer " + credential,
		} {
			r.Header.Set(name, value)
		}
		res, _ := s.Do(r) //nolint:bodyclose // it is read and closed
		return res.StatusCode
	}
	for n, c := range []struct {
		credential string
		want       int
	}{
		{token, http.StatusOK}, {"unknown", http.StatusUnauthorized}, {token, http.StatusOK}, {token, http.StatusTooManyRequests},
	} {
		if got := ask(c.credential); got != c.want {
			t.Errorf("question %d = %d, want %d", n, got, c.want)
		}
	}
	all := recorded(t, s)
	if len(all) != 2 {
		t.Fatalf("calls = %+v, want the two that passed", all)
	}
	got := all[0]
	want := calllog.Found{Ref: got.Ref, Call: calllog.Call{
		At: got.At, Took: got.Took, Site: "https://orders.example.com", Method: http.MethodPut, Path: "/orders/7", Verdict: "allow",
		ClientID: "reports", IP: "192.0.2.7", UserAgent: got.UserAgent,
	}}
	if got != want {
		t.Errorf("call = %+v, want %+v", got, want)
	}
}
