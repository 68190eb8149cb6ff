package explain_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// A site names a policy that the configuration API has: it refuses everybody until the policy is there, and decides by
// it from the next request on, without a reload and after one.
func TestPolicyOfTheAPIHoldsAtOnce(t *testing.T) {
	s := servertest.WithPolicies(t)
	s.Extra += "policy fixed {\n\t\t\tpublic /healthz\n\t\t}"
	s.Site = "protect orders.read {\n\t\tpolicy office\n\t}"
	s.MustLoad()
	s.WantFinding("warning Caddyfile:", "the policy office is not in the Caddyfile: until the configuration API has it, the site http://"+
		s.API+" refuses everybody", "store it by the configuration API")
	token := s.Token()
	enter := func(path string, want int, headers ...string) {
		t.Helper()
		r := s.Request(http.MethodGet, "http://"+s.API+path, nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		if resp, body := s.Do(r); resp.StatusCode != want {
			t.Errorf("GET %s = %d %s, want %d", path, resp.StatusCode, body, want)
		}
	}
	bearer := []string{"Authorization", "Bearer " + token}
	enter("/a", http.StatusForbidden, bearer...)
	enter("/a", http.StatusForbidden)
	body := servertest.RuleJSON{"allow": []servertest.RuleJSON{{
		"name": "a", "match": []servertest.RuleJSON{{"path": []string{"/a", "/ws"}}},
		"need": servertest.RuleJSON{"clients": []string{"reports"}},
	}}, "public": []string{"/open"}}
	s.MustCall("PUT", servertest.PoliciesPath+"/office", body, http.StatusCreated)
	enter("/a", http.StatusOK, bearer...)
	enter("/a", http.StatusUnauthorized)
	enter("/b", http.StatusForbidden, bearer...)
	enter("/open", http.StatusOK)
	if all, err := s.Findings(); all != "" || err != nil {
		t.Errorf("check once the policy is there: %v\n%s", err, all)
	}
	s.MustLoad()
	enter("/a", http.StatusOK, bearer...)
	enter("/b", http.StatusForbidden, bearer...)

	body["deny"] = []servertest.RuleJSON{{
		"match": []servertest.RuleJSON{{"path": []string{"/a"}}},
		"need":  servertest.RuleJSON{"clients": []string{"reports"}},
	}}
	s.MustCall("PUT", servertest.PoliciesPath+"/office", body, http.StatusNoContent)
	enter("/a", http.StatusForbidden, bearer...)
	for method, path := range map[string]string{"PUT": "/fixed", "DELETE": "/office"} {
		if got := s.MustCall(method, servertest.PoliciesPath+path, body, http.StatusConflict); !strings.Contains(got, "Caddyfile:") {
			t.Errorf("%s %s: %s, want the place in the Caddyfile", method, path, got)
		}
	}
	list := s.MustCall("GET", servertest.PoliciesPath, nil, http.StatusOK)
	for _, want := range []string{
		`"name":"fixed","source":"CADDYFILE","place":"Caddyfile:`, `"policy":{"public":["/healthz"]}`,
		`"name":"office","source":"API","used_by":["http://` + s.API + ` (Caddyfile:`,
	} {
		if !strings.Contains(list, want) {
			t.Errorf("the list has no %s: %s", want, list)
		}
	}
	if got := s.MustCall("PUT", servertest.PoliciesPath+"/office",
		servertest.RuleJSON{"allow": []servertest.RuleJSON{{"when": []string{"always"}}}}, http.StatusBadRequest); !strings.Contains(got,
		"allow[0].when[0]") || !strings.Contains(got, "want days, hours and a time zone") {
		t.Errorf("hours that are none: %s", got)
	}
	if out := s.Run("", "config", "export"); !strings.Contains(out, `"office"`) || strings.Contains(out, "/healthz") {
		t.Errorf("config export = %s", out)
	}
	if out := s.Run(`{"policies":{"office":{"public":["/x"]}}}`, "config", "diff", "-"); !strings.Contains(out, "policies.office: ") {
		t.Errorf("config diff = %s", out)
	}
	s.Refused("is used by http://"+s.API, `{"policies":{}}`, "config", "import", "-")

	// The policy of a site that names it no more can be removed, and the Caddyfile wins over one of the same name.
	s.Site = "protect orders.read"
	s.Extra += "\npolicy office {\n\t\t\tpublic /other\n\t\t}"
	s.MustLoad()
	s.WantFinding("warning Caddyfile:", "policy office: the configuration API has a policy of this name too", "remove it there")
	s.MustCall("DELETE", servertest.PoliciesPath+"/office", nil, http.StatusNoContent)
	s.MustCall("DELETE", servertest.PoliciesPath+"/office", nil, http.StatusConflict)
	if all, err := s.Findings(); all != "" || err != nil {
		t.Errorf("check in the end: %v\n%s", err, all)
	}
}

// An open connection is cut by a change of the policy that has let it in, of the store as it is on disk.
func TestChangedPolicyOfTheAPICutsStreams(t *testing.T) {
	s := servertest.WithPolicies(t)
	s.Site = "route {\n\t\tprotect orders.read {\n\t\t\tpolicy office\n\t\t}\n\t\treverse_proxy " + echo(t) + "\n\t}"
	s.MustLoad()
	s.MustCall("PUT", servertest.PoliciesPath+"/office",
		servertest.RuleJSON{"allow": []servertest.RuleJSON{{"match": []servertest.RuleJSON{{"path": []string{"/ws"}}}}}}, http.StatusCreated)
	conn, err := net.Dial("tcp", s.API)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn,
		"GET /ws HTTP/1.1\r\nHost: "+s.API+"\r\nAuthorization: Bearer "+s.Token()+
			"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %v, %v", resp, err)
	}
	resp.Body.Close()
	s.MustCall("PUT", servertest.PoliciesPath+"/office",
		servertest.RuleJSON{"allow": []servertest.RuleJSON{{"match": []servertest.RuleJSON{{"path": []string{"/other"}}}}}}, http.StatusNoContent)
	if rest, err := io.ReadAll(br); err != nil || len(rest) == 0 {
		t.Errorf("the end of the connection was % x, %v, want a close frame", rest, err)
	}
}

// echo is an upstream that takes every upgrade.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err == nil {
			io.Copy(conn, rw) //nolint:errcheck // until it is cut
			conn.Close()
		}
	})}
	go srv.Serve(l) //nolint:errcheck // until it is closed
	t.Cleanup(func() { srv.Close() })
	return l.Addr().String()
}
