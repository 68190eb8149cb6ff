package access_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// apis are the APIs that the API clients of the tests can use; their passwords are "secret".
var apis = map[string][]string{
	"desk": {"access", "access_decisions"}, "board": {"access"}, "robot": {"access_decisions"},
	"north": {"access", "access_decisions"}, "other": {"persons"},
}

// served is a world with its API.
type served struct {
	*world
	*testing.T
	api *access.API
}

func newServed(t *testing.T) *served {
	t.Helper()
	s := &served{world: newWorld(t), T: t}
	s.api = access.NewAPI(s.Service, access.APIDeps{
		Gate: &jsonapi.Gate{
			Log: zap.NewNop(), Issuer: "https://auth.example.com", Partitioned: true,
			Authorize: func(r *http.Request, api string) (string, error) {
				id, password, _ := r.BasicAuth()
				if password != "secret" || apis[id] == nil {
					return "", authn.ErrNoCredentials
				}
				for _, can := range apis[id] {
					if can == api {
						return id, nil
					}
				}
				return "", authn.ErrNotAllowed
			},
			Partitions: func(client string) []string {
				if client == "north" {
					return []string{"north"}
				}
				return nil
			},
		},
		PartitionOf: func(_ storage.Tx, personID string) (string, error) {
			if strings.HasPrefix(personID, "north-") {
				return "north", nil
			}
			return audit.DefaultPartition, nil
		},
		Origin: func(*http.Request) audit.Origin { return audit.Origin{ClientIP: "192.0.2.7"} },
	})
	return s
}

// as makes a request in the name of an API client, with a body if there is one.
func (s *served) as(client, method, target, body string) (status int, out map[string]any) {
	s.Helper()
	r := httptest.NewRequest(method, "https://auth.example.com"+target, strings.NewReader(body))
	if r.SetBasicAuth(client, "secret"); body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		s.Fatalf("%s %s = %d %q: %v", method, target, w.Code, w.Body, err)
	}
	return w.Code, out
}

// want asserts the status of an answer, and that members have values.
func (s *served) want(client, method, target, body string, status int, members ...any) map[string]any {
	s.Helper()
	got, out := s.as(client, method, target, body)
	if got != status {
		s.Errorf("%s %s %s = %d %v, want %d", method, target, body, got, out, status)
	}
	for i := 0; i < len(members); i += 2 {
		if name := members[i].(string); out[name] != members[i+1] { //nolint:forcetypeassert // a name
			s.Errorf("%s %s %s: %s = %v, want %v", method, target, body, name, out[name], members[i+1])
		}
	}
	return out
}

// items returns the sites of a list.
func (s *served) sites(client, query string) (sites []string, next string) {
	s.Helper()
	_, out := s.as(client, http.MethodGet, "/api/access-requests"+query, "")
	for _, item := range out["items"].([]any) { //nolint:forcetypeassert // the form of the answer
		sites = append(sites, item.(map[string]any)["site"].(string)) //nolint:forcetypeassert // the same
	}
	next, _ = out["next"].(string)
	return sites, next
}

// TestAPI: a program sees who has asked, and grants, refuses and withdraws as the commands do.
func TestAPI(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	s.ask(t, files)
	s.ask(t, wiki)
	if sites, next := s.sites("board", ""); strings.Join(sites, " ") != files+" "+wiki || next != "" {
		t.Fatalf("the list has %q, then %q", sites, next)
	}
	sites, next := s.sites("board", "?limit=1&person_id="+ada.ID)
	if len(sites) != 1 || next == "" {
		t.Fatalf("the first of two is %q, then %q", sites, next)
	}
	if sites, next = s.sites("board", "?limit=1&person_id="+ada.ID+"&after="+next); len(sites) != 1 || sites[0] != wiki || next != "" {
		t.Fatalf("the second of two is %q, then %q", sites, next)
	}
	_, list := s.as("desk", http.MethodGet, "/api/access-requests?site="+url.QueryEscape(wiki), "")
	one := list["items"].([]any)[0].(map[string]any)   //nolint:forcetypeassert // the form of the answer
	at := "/api/access-requests/" + one["id"].(string) //nolint:forcetypeassert // the same
	s.want("board", http.MethodGet, at, "", 200, "person_id", ada.ID, "username", ada.Name, "state", "open", "reason", "to write the minutes")

	for body, problem := range map[string]string{
		`{}`: "for: ", `{"for":"8"}`: "for: ", `{"for":"-8h"}`: "for: ", `{"for":"8785h"}`: "for: ",
		`{"uses":1001}`: "for: ", `{"uses":-1}`: "for: ",
		`{"for":"8h","note":"a\nb"}`: "note: ", `{"for":"8h","until":1}`: "until: ", `{"for":8}`: "for: ",
	} {
		if out := s.want("desk", http.MethodPost, at+"/grant", body, 400); !strings.HasPrefix(out["error_message"].(string), //nolint:forcetypeassert // documented
			problem) {
			t.Errorf("%s is refused with %v, want one about %s", body, out, problem)
		}
	}
	s.want("desk", http.MethodPost, at+"/revoke", `{}`, 409)
	s.want("desk", http.MethodPost, at+"/grant", `{"for":"8h","uses":2,"note":"for the audit"}`, 200, "state", "granted", "decided_by", "desk",
		"note", "for the audit", "uses", 2.0)
	if !s.passes(t, wiki, true) {
		t.Error("a grant by the API lets nobody pass")
	}
	if e := s.told[len(s.told)-1]; e.Type != "access.AccessGrantedEvent" || e.Actor != "desk" || e.PersonID != ada.ID ||
		e.ClientIP != "192.0.2.7" {
		t.Errorf("the event is %+v", e)
	}
	s.want("desk", http.MethodPost, at+"/refuse", `{"note":"no"}`, 409)
	s.want("desk", http.MethodPost, at+"/revoke", `{"note":"over"}`, 200, "state", "revoked")
	if s.passes(t, wiki, false) {
		t.Error("a grant that was withdrawn holds")
	}
	s.want("board", http.MethodGet, at, "", 200, "state", "revoked", "note", "over")
	if sites, _ := s.sites("board", "?state=open"); len(sites) != 1 || sites[0] != files {
		t.Errorf("the open ones are %q", sites)
	}
	_, list = s.as("desk", http.MethodGet, "/api/access-requests?state=open", "")
	s.want("desk", http.MethodPost, "/api/access-requests/"+list["items"].([]any)[0].(map[string]any)["id"].(string)+"/refuse", //nolint:forcetypeassert // the same
		`{"note":"not yet"}`, 200, "state", "refused")
}

// TestAPIRefuses: no one reads or decides without the right to, in another partition, or by guessing.
func TestAPIRefuses(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	s.ask(t, wiki)
	_, list := s.as("desk", http.MethodGet, "/api/access-requests", "")
	at := "/api/access-requests/" + list["items"].([]any)[0].(map[string]any)["id"].(string) //nolint:forcetypeassert // the form of the answer
	for _, tt := range []struct {
		name, client, method, target, body string
		status                             int
	}{
		{"attack 335: without credentials", "", "GET", "/api/access-requests", "", 401},
		{"attack 335: another API", "other", "GET", "/api/access-requests", "", 403},
		{"attack 335: who reads decides", "board", "POST", at + "/grant", `{"for":"8h"}`, 403},
		{"who decides does not read by it", "robot", "GET", at, "", 403},
		{"attack 335: a limited client reads another partition", "north", "GET", at, "", 404},
		{"attack 335: a limited client decides in another partition", "north", "POST", at + "/grant", `{"for":"8h"}`, 404},
		{"an id of nothing", "desk", "GET", "/api/access-requests/x", "", 404},
		{"an id with more behind it", "desk", "GET", at + "A", "", 404},
		{"another path", "desk", "GET", at + "/grant/x", "", 404},
		{"another method", "desk", "DELETE", at, "", 405},
		{"a filter that there is not", "desk", "GET", "/api/access-requests?stat=open", "", 400},
		{"a state that there is not", "desk", "GET", "/api/access-requests?state=closed", "", 400},
		{"a filter twice", "desk", "GET", "/api/access-requests?state=open&state=granted", "", 400},
		{"no limit", "desk", "GET", "/api/access-requests?limit=0", "", 400},
		{"a large limit", "desk", "GET", "/api/access-requests?limit=1001", "", 400},
		{"after nothing", "desk", "GET", "/api/access-requests?after=x", "", 400},
		{"a malformed body", "desk", "POST", at + "/refuse", `{"note":1}`, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if status, out := s.as(tt.client, tt.method, tt.target, tt.body); status != tt.status || out["error_message"] == "" {
				t.Errorf("%s %s = %d %v, want %d", tt.method, tt.target, status, out, tt.status)
			}
		})
	}
	if sites, _ := s.sites("north", ""); len(sites) != 0 {
		t.Errorf("an API client of another partition sees %q", sites)
	}
	by := audit.Actor{ID: "north-ben", Name: "ben"}
	if err := s.Ask(t.Context(), files, "to read them", by); err != nil {
		t.Fatal(err)
	}
	if sites, _ := s.sites("north", ""); len(sites) != 1 || sites[0] != files {
		t.Errorf("an API client of the partition sees %q", sites)
	}
	if r, err := s.Find(t.Context(), ada.ID, wiki); err != nil || r.State != access.Open {
		t.Errorf("after all that the request is %+v, %v", r, err)
	}
	s.now = s.now.Add(31 * 24 * time.Hour)
	s.want("desk", http.MethodGet, at, "", 404)
}
