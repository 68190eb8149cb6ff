package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authzclient "github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/explain"
	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestBody: requests are read strictly, except that null counts as absent.
func TestBody(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		into       any
		want       string // part of the error. Empty: none
	}{
		{"a group without permissions", `{"group":"staff","permissions":null}`, new(GroupRequest), ""},
		{
			"a profile without addresses",
			`{"persons":[{"username":"u","password":"p","profile":{"email_addresses":null,"name":{"first_name":"U"}}}]}`, new(importRequest), "",
		},
		{"an action token", `{"person":"u","make":{"actions":[{"type":"LOGIN","parameters":null}],"ttl":60}}`, new(ActionTokenRequest), ""},
		{"a client", `{"id":"c","secrets":["s"],"max_sessions":3,"lifetimes":{"code":"30s","session":1000000000},"app":{"identifier":"a","platform":"b","version":"c"}}`, new(client.Client), ""},
		{"a token", `{"client":"c","scope":["a"],"lifetime":"1m"}`, new(IssueRequest), ""},
		{"a secret", `{"token":"t"}`, new(tokenRequest), ""},
		{"a person", `{"username":"u","password":"p","email_verified":true,"groups":["g"]}`, new(person.NewPerson), ""},
		{"an invitation", `{"email":"u@example.com"}`, new(invitation.NewInvitation), ""},
		{"an unknown member", `{"group":"staff","colour":"red"}`, new(GroupRequest), "colour"},
		{"another case", `{"Group":"staff"}`, new(GroupRequest), "Group"},
		{"a member twice", `{"group":"staff","group":"admins"}`, new(GroupRequest), "group"},
		{"two values", `{"group":"staff"}{}`, new(GroupRequest), "one JSON value"},
		{"nothing", ``, new(GroupRequest), "one JSON value"},
		{"not UTF-8", "{\"group\":\"\xff\"}", new(GroupRequest), "UTF-8"},
		{"null in an array", `{"group":"staff","add":[null]}`, new(GroupRequest), "add[0]"},
		{"a wrong type", `{"group":7}`, new(GroupRequest), "group"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(tt.body))
		err := body(r, tt.into)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: body = %v, want an error with %q", tt.name, err, tt.want)
		}
	}
	var in GroupRequest
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/",
		strings.NewReader(`{"group":"staff","permissions":null,"add":["a"]}`))
	if err := body(r, &in); err != nil || in.Group != "staff" || in.Permissions != nil || len(in.Add) != 1 {
		t.Errorf("body = %+v, %v, want the group, one person to add and no permissions", in, err)
	}
}

// TestAdminRefusal: an operation that failed inside is not the fault of the request, and its text stays inside.
func TestAdminRefusal(t *testing.T) {
	t.Parallel()
	inner := errors.New("open /var/lib/gatehouse/000001.vlog: too many open files")
	for name, c := range map[string]struct {
		err    error
		status int
		text   string // part of it
	}{
		"an unknown failure":         {fmt.Errorf("list clients: %w", inner), http.StatusInternalServerError, "internal error"},
		"a broken store":             {fmt.Errorf("%w: %w", storage.ErrUnavailable, inner), http.StatusServiceUnavailable, "try again later"},
		"a full disk":                {fmt.Errorf("%w: %w", storage.ErrFull, inner), http.StatusServiceUnavailable, "try again later"},
		"a caller who left":          {fmt.Errorf("%w: %w", context.Canceled, inner), http.StatusServiceUnavailable, "try again later"},
		"a failure of OAuth":         {oauth.ServerError(inner), http.StatusInternalServerError, "internal error"},
		"a failure behind a refusal": {oauth.InvalidScope(inner, "scope is not allowed"), http.StatusBadRequest, "scope is not allowed"},
		"a failure of settings": {
			(&jsonapi.Error{Status: http.StatusConflict, Message: "changed meanwhile"}).With(inner),
			http.StatusConflict, "changed meanwhile",
		},
		"an unknown person":        {fmt.Errorf("ada: %w", person.ErrNoPerson), http.StatusNotFound, "ada: no such person"},
		"a username that is taken": {person.ErrUsernameTaken, http.StatusConflict, "taken"},
		"a bad member":             {&person.ValidationError{Field: "email", Problem: "is wrong"}, http.StatusBadRequest, "email is wrong"},
		"a bad client":             {(&authzclient.Client{ID: "x"}).Validate(), http.StatusBadRequest, "grants"},
		"a bad parameter":          {badRequestf("limit is not between 1 and %d", 5), http.StatusBadRequest, "limit is not between 1 and 5"},
		"a long body":              {badRequest{&http.MaxBytesError{Limit: 5}}, http.StatusRequestEntityTooLarge, "5 bytes"},
	} {
		status, text := Refused(c.err)
		if status != c.status || !strings.Contains(text, c.text) || strings.Contains(text, "vlog") {
			t.Errorf("%s: %d %q, want %d with %q and nothing of the inside", name, status, text, c.status, c.text)
		}
	}
}

// TestSuggestions: who names something that is not there is told what was probably meant.
func TestSuggestions(t *testing.T) {
	t.Parallel()
	people := []string{"ada@example.com", "ada@example.net", "ben@example.com", "carl"}
	for typed, want := range map[string]string{
		"ada": "[ada@example.com ada@example.net]", "Ben": "[ben@example.com]", "bne@example.com": "[ben@example.com]",
		"car1": "[carl]", "zoe": "[]",
	} {
		if got := fmt.Sprint(closest(typed, people)); got != want {
			t.Errorf("closest(%q) = %s, want %s", typed, got, want)
		}
	}
	i := &Instance{Sites: []string{"https://wiki.example.com", "https://shop.example.com:8443"}}
	none := explain.BadRequest{Err: fmt.Errorf("%w x", explain.ErrNoSite)}
	for address, want := range map[string]string{
		"https://wki.example.com/x":  "did you mean https://wiki.example.com?",
		"http://wiki.example.com/x":  "did you mean https://wiki.example.com?",
		"https://shop.example.com/x": "did you mean https://shop.example.com:8443?", "https://nowhere.test/": "",
	} {
		err := i.aboutSite(address, none)
		if !errors.As(err, new(explain.BadRequest)) || !strings.Contains(err.Error(), want) || want == "" &&
			strings.Contains(err.Error(), "mean") {
			t.Errorf("aboutSite(%q) = %v, want %q", address, err, want)
		}
	}
}

// TestClientOrigin: a client says whether a command or an administrator in the console has added it.
func TestClientOrigin(t *testing.T) {
	t.Parallel()
	i := &Instance{Written: func(string) *client.Client { return nil }}
	for by, want := range map[string]string{callerID: "command", "0198c0de-0000-7000-8000-000000000000": "console"} {
		c := &clientstore.Info{Client: authzclient.Client{ID: "wiki"}, Stored: true, Origin: clientstore.OriginCommand, By: by}
		if got := i.clientInfo(c).Origin; got != want {
			t.Errorf("origin of a client of %s = %s, want %s", by, got, want)
		}
	}
}
