package command

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/identity/enrol"
	"github.com/gatehouse-id/gatehouse/identity/person"
)

// TestBody: requests are read strictly, except that null counts as absent.
func TestBody(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		into       any
		want       string // part of the error. Empty: none
	}{
		{"a group without permissions", `{"group":"staff","permissions":null}`, new(groupRequest), ""},
		{"a profile without addresses", `{"persons":[{"username":"u","password":"p","profile":{"email_addresses":null,"name":{"first_name":"U"}}}]}`, new(importRequest), ""},
		{"an action token", `{"person":"u","make":{"actions":[{"type":"LOGIN","parameters":null}],"ttl":60}}`, new(actionTokenRequest), ""},
		{"a client", `{"id":"c","secrets":["s"],"max_sessions":3,"lifetimes":{"code":"30s","session":1000000000},"app":{"identifier":"a","platform":"b","version":"c"}}`, new(client.Client), ""},
		{"a token", `{"client":"c","scope":["a"],"lifetime":"1m"}`, new(issueRequest), ""},
		{"a secret", `{"token":"t"}`, new(tokenRequest), ""},
		{"a person", `{"username":"u","password":"p","email_verified":true,"groups":["g"]}`, new(person.NewPerson), ""},
		{"an invitation", `{"email":"u@example.com"}`, new(enrol.NewInvitation), ""},
		{"an unknown member", `{"group":"staff","colour":"red"}`, new(groupRequest), "colour"},
		{"another case", `{"Group":"staff"}`, new(groupRequest), "Group"},
		{"a member twice", `{"group":"staff","group":"admins"}`, new(groupRequest), "group"},
		{"two values", `{"group":"staff"}{}`, new(groupRequest), "one JSON value"},
		{"nothing", ``, new(groupRequest), "one JSON value"},
		{"not UTF-8", "{\"group\":\"\xff\"}", new(groupRequest), "UTF-8"},
		{"null in an array", `{"group":"staff","add":[null]}`, new(groupRequest), "add[0]"},
		{"a wrong type", `{"group":7}`, new(groupRequest), "group"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(tt.body))
		err := body(r, tt.into)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: body = %v, want an error with %q", tt.name, err, tt.want)
		}
	}
	var in groupRequest
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(`{"group":"staff","permissions":null,"add":["a"]}`))
	if err := body(r, &in); err != nil || in.Group != "staff" || in.Permissions != nil || len(in.Add) != 1 {
		t.Errorf("body = %+v, %v, want the group, one person to add and no permissions", in, err)
	}
}
