package caddymodule_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

const eventsSecret = "the-secret-of-ops-in-all-of-these-tests" //nolint:gosec // of these tests

// told is an event handler of Caddy that remembers what it hears. While it is held it takes nothing more.
type told struct{}

var heard = struct {
	sync.Mutex
	events []caddy.Event
	hold   chan struct{}
}{}

func init() { caddy.RegisterModule(told{}) }

func (told) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.gatehouse_test", New: func() caddy.Module { return new(told) }}
}

func (*told) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	return nil
}

func (*told) Handle(_ context.Context, e caddy.Event) error {
	heard.Lock()
	hold := heard.hold
	heard.events = append(heard.events, e)
	heard.Unlock()
	if hold != nil {
		<-hold
	}
	return nil
}

var _ caddyevents.Handler = (*told)(nil)

// addPerson adds a person by command and returns the id.
func addPerson(s *servertest.Server, name string) string {
	s.T.Helper()
	return servertest.Decode[struct{ ID string }](s.T, s.Run("a password of twenty\n", "person", "add", name, "--json")).ID
}

// eventsOf asks the events API.
func eventsOf(s *servertest.Server, query string) (int, map[string]any) {
	s.T.Helper()
	r := s.Request(http.MethodGet, s.Issuer()+"/api/events?"+query, nil)
	r.SetBasicAuth("ops", eventsSecret)
	resp, body := s.Do(r)
	var v map[string]any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		s.T.Fatalf("events of %s = %d %s", query, resp.StatusCode, body)
	}
	return resp.StatusCode, v
}

func TestEventsAPI(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	id := addPerson(s, "ann@example.com")
	status, answer := eventsOf(s, "userId="+id+"&limit=10&offset=0")
	list, _ := answer["resultSet"].([]any)
	if status != http.StatusOK || len(list) != 1 {
		t.Fatalf("events = %d %v, want one", status, answer)
	}
	e := list[0].(map[string]any)
	if e["event_type"] != "person.PersonCreatedEvent" || e["event_agent_user"] != "admin API" || e["client_ip"] != "127.0.0.1" ||
		!strings.HasPrefix(e["user_agent"].(string), "Go-http-client") {
		t.Errorf("event = %v, want who did it and from where", e)
	}
	if status, answer := eventsOf(s, "actor=admin&userId="+id+"&limit=1&offset=0"); status != http.StatusOK ||
		answer["pagination"].(map[string]any)["totalResults"] != 1.0 {
		t.Errorf("events of the command = %d %v, want one", status, answer)
	}
	resp, body := s.Get("/api/events?userId=" + id + "&limit=1&offset=0")
	if resp.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Basic ") {
		t.Errorf("events without credentials = %d %s, want 401", resp.StatusCode, body)
	}
}

// TestEventsOfOrganisations: what the API client of an organisation causes, by any API, names the organisation.
func TestEventsOfOrganisations(t *testing.T) {
	s := servertest.NewServer(t)
	s.Extra = servertest.APIClient("acme-api", "configuration persons") + servertest.APIClient("other-api", "persons") +
		"service_provider wiki {\n\t\t\tmetadata https://wiki.example.com/metadata\n\t\t}\n"
	s.MustLoad()
	file := filepath.Join(s.Dir, "organisations.json")
	servertest.WriteFile(t, file,
		`{"features":{"configuration_api_enabled":true,"person_api_enabled":true},"organisations":[{"id":"acme","username_for_basic_auth":"acme-api"}]}`, 0o600)
	s.Run("", "config", "import", file)
	call := func(t *testing.T, client, path, kind, body string, want int) {
		t.Helper()
		r := s.Request(http.MethodPost, s.Issuer()+path, strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		r.SetBasicAuth(client, servertest.OpsSecret)
		if resp, body := s.Do(r); resp.StatusCode != want {
			t.Fatalf("%s = %d %s, want %d", path, resp.StatusCode, body, want)
		}
	}
	call(t, "acme-api", "/api/v2/config", "application/json",
		`{"organisations":[{"id":"acme","name":"Acme","username_for_basic_auth":"acme-api"}]}`, http.StatusNoContent)
	s.Run("", "client", "add", "robot", "--grants", "client_credentials", "--scopes", "orders.read")
	for _, id := range []string{"reports", "wiki", "robot"} {
		t.Run("attack 870: an application of nobody's organisation: "+id, func(t *testing.T) {
			call(t, "acme-api", "/api/v2/config/organisations/acme/service-providers", "application/json",
				`[{"id":"`+id+`","use_trusted_device":"true"}]`, http.StatusConflict)
		})
	}
	for client, person := range map[string]string{"acme-api": "ann@example.com", "other-api": "bob@example.com"} {
		call(t, client, "/scim/v2/Users", "application/scim+json",
			`{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"userName":"`+person+`"}`, http.StatusCreated)
	}
	for client, want := range map[string]struct {
		organisation any
		events       int
	}{"acme-api": {"acme", 2}, "other-api": {nil, 1}} {
		_, answer := eventsOf(s, "actor="+client+"&limit=10&offset=0")
		list := answer["resultSet"].([]any)
		if len(list) != want.events {
			t.Errorf("%s has caused %v, want %d events", client, list, want.events)
		}
		for _, e := range list {
			if got := e.(map[string]any)["organisation_id"]; got != want.organisation {
				t.Errorf("an event of %s names the organisation %v, want %v", client, got, want.organisation)
			}
		}
	}
}

// TestEventOrigin signs in with headers that claim another address.
func TestEventOrigin(t *testing.T) {
	for _, tt := range []struct{ name, options, agent, want string }{
		{"attack 263: X-Forwarded-For of a peer that is no proxy of ours", "", "curl/8\tx", "127.0.0.1"},
		{"a trusted proxy is believed", "servers {\n\t\ttrusted_proxies static 127.0.0.0/8\n\t}", "curl/8", "203.0.113.9"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := servertest.NewServer(t)
			s.Options = tt.options
			s.Extra = "client legacy {\nsecret " + servertest.TestSecret + "\ngrants password\nscopes orders.read\ndefault_scopes orders.read\n}"
			s.MustLoad()
			id := addPerson(s, "ann@example.com")
			r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token",
				strings.NewReader("grant_type=password&username=ann@example.com&password=wrong"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("X-Forwarded-For", "203.0.113.9")
			r.Header.Set("X-Real-IP", "198.51.100.1")
			r.Header.Set("Forwarded", "for=198.51.100.2")
			r.Header.Set("User-Agent", tt.agent)
			r.SetBasicAuth("legacy", servertest.TestSecret)
			if resp, body := s.Do(r); resp.StatusCode != http.StatusBadRequest {
				t.Fatalf("wrong password = %d %s", resp.StatusCode, body)
			}
			_, answer := eventsOf(s, "userId="+id+"&limit=1&offset=0")
			e := answer["resultSet"].([]any)[0].(map[string]any)
			if e["event_type"] != "login.LoginFailedEvent" || e["client_ip"] != tt.want || strings.Contains(e["user_agent"].(string), "\t") {
				t.Errorf("event = %v, want a failed login from %s", e, tt.want)
			}
		})
	}
}

func TestVerifyEventsCommand(t *testing.T) {
	s := servertest.NewServer(t)
	s.Storage, s.Key = "storage memory verified", "encryption_key "+servertest.TestKey
	s.MustLoad()
	addPerson(s, "ann@example.com")
	s.Token()
	type answer struct {
		Sound  bool
		Chains []audit.Verified
	}
	var v answer
	servertest.Eventually(t, "everything is sealed", func() bool {
		v = servertest.Decode[answer](t, s.Run("", "events", "verify", "--json"))
		return v.Sound && len(v.Chains) == 2 && v.Chains[0].Unsealed == 0 && v.Chains[1].Unsealed == 0
	})
	byName := map[string]audit.Verified{}
	for _, c := range v.Chains {
		byName[c.Chain] = c
	}
	if byName["default"].Events == 0 || byName["default/tokens"].Events != 1 {
		t.Errorf("verify = %+v, want events of both chains", v)
	}
	anchor := "default@" + byName["default"].Head
	if out := s.Run("", "events", "verify", "--anchor", anchor); !strings.Contains(out, "\nsound\n") || !strings.Contains(out, anchor) ||
		!strings.Contains(out, "sealed      through event") {
		t.Errorf("verify = %s", out)
	}
	s.Refused("is not an anchor", "", "events", "verify", "--anchor", "x")

	store := servertest.MemoryOf(t, "verified")
	err := store.Update(t.Context(), func(tx storage.Tx) error {
		for rec, err := range tx.Scan(storage.Range{Prefix: []byte("event_log/default\x00\x01kept")}) {
			if err != nil {
				return err
			}
			return tx.Put(rec.Key, []byte(strings.Replace(string(rec.Value), "Person", "Nobody", 1)), time.Time{})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Refused("the events are not sound", "", "events", "verify")
	out, _ := servertest.Run(t, "", "events", "verify", "--address", s.Admin)
	if !strings.Contains(out, "WRONG       an event of block 1") {
		t.Errorf("verify of a changed event = %s", out)
	}
}

// TestRetention reloads with other retentions: the newest holds, for events that are there already too.
func TestRetention(t *testing.T) {
	s := servertest.NewServer(t)
	load := func(options string) {
		t.Helper()
		s.Extra = "events {\n" + options + "\n}"
		s.MustLoad()
	}
	total := func(person string) any {
		t.Helper()
		_, answer := eventsOf(s, "userId="+person+"&limit=1&offset=0")
		return answer["pagination"].(map[string]any)["totalResults"]
	}
	collect := func() int {
		t.Helper()
		n, err := servertest.CollectEvents(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	load("retention 1000h\ntoken_retention 1000h")
	id := addPerson(s, "ann@example.com")
	s.Token()
	if n := collect(); n != 0 || total(id) != 1.0 {
		t.Errorf("%d events collected, %v of the person left, want 0 and 1", n, total(id))
	}
	load("token_retention forever\nretention 1000h")
	if n := collect(); n != 0 {
		t.Errorf("%d events collected, want none for ever", n)
	}
	load("retention 1000h\ntoken_retention 1ms")
	if n := collect(); n != 1 || total(id) != 1.0 {
		t.Errorf("%d events collected, %v of the person left, want the token's alone", n, total(id))
	}
	load("retention 1ms")
	if n := collect(); n == 0 || total(id) != 0.0 {
		t.Errorf("%d events collected, %v of the person left, want all", n, total(id))
	}
	if out := s.Run("", "events", "verify"); !strings.Contains(out, "those before were collected by") || !strings.Contains(out, "\nsound\n") {
		t.Errorf("verify = %s, want sound chains that begin later", out)
	}
	_, metrics := s.Do(s.Request(http.MethodGet, "http://"+s.Admin+"/metrics", nil))
	for _, want := range []string{
		"gatehouse_events_collected_total ", "gatehouse_events_sealed_total ", "gatehouse_events_unsealed ",
		`gatehouse_events_by_type_total{type="person.PersonCreatedEvent"} `,
		`gatehouse_event_bytes_by_type_total{type="token.AccessTokenIssuedEvent"} `, `gatehouse_webhook_posts_total{outcome="taken"} 0`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics does not say %s", want)
		}
	}
}

func TestWebhook(t *testing.T) {
	got := make(chan map[string]any, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		var v map[string]any
		if err != nil || json.Unmarshal(raw, &v) != nil || !strings.HasPrefix(r.Header.Get("webhook-signature"), "v1,") {
			t.Errorf("posted %q, %v, %v", raw, r.Header, err)
		}
		got <- v
	}))
	defer hook.Close()
	s := servertest.NewServer(t)
	s.Extra = "events {\nwebhook " + hook.URL + " {\nsecret a-secret-of-at-least-32-characters\n}\n}"
	s.MustLoad()
	id := addPerson(s, "ann@example.com")
	s.Token() // of a client alone: no event is posted
	for {
		select {
		case v := <-got:
			if v["type"] == "token.AccessTokenIssuedEvent" {
				t.Error("the token of a client was told")
			}
			if v["type"] == "person.PersonCreatedEvent" && v["data"].(map[string]any)["person_id"] == id {
				return
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("the webhook was not told")
		}
	}
}

func TestCaddyEvents(t *testing.T) {
	s := servertest.NewServer(t)
	s.Options = "events {\n\t\ton gatehouse.person.PersonCreatedEvent gatehouse_test\n\t}"
	// A handler that does not return, at the very first event, delays no request.
	hold := make(chan struct{})
	heard.Lock()
	heard.events, heard.hold = nil, hold
	heard.Unlock()
	s.MustLoad()
	ids := []string{addPerson(s, "ann@example.com"), addPerson(s, "ben@example.com")}
	if status, _ := eventsOf(s, "userId="+ids[1]+"&limit=1&offset=0"); status != http.StatusOK {
		t.Errorf("events while a handler is slow = %d, want 200", status)
	}
	hears := func(want int, of ...string) func() bool {
		return func() bool {
			heard.Lock()
			defer heard.Unlock()
			n := 0
			for _, e := range heard.events {
				if person, _ := e.Data["person_id"].(string); len(of) == 0 || slices.Contains(of, person) && e.Data["client_ip"] == "127.0.0.1" &&
					e.Data["event_agent_user"] == "admin API" {
					n++
				}
			}
			return n == want
		}
	}
	servertest.Eventually(t, "the first event is told", hears(1))
	heard.Lock()
	heard.hold = nil
	heard.Unlock()
	close(hold)
	servertest.Eventually(t, "the others are told", hears(2, ids...))
}
