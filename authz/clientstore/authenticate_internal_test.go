package clientstore

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/workload"
)

// An Authorization header has one reading or is refused, and encoded values come back.
func FuzzBasic(f *testing.F) {
	for _, seed := range []string{
		"Basic c2hvcDpzZWNyZXQ=", "basic c2hvcDpzZWNyZXQ=", "Basic", "Basic a, Basic b", "Bearer x", "Basic =",
		"Basic  YTpi", "Basic YSUzQWI6Yg==",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		for _, encoded := range []bool{true, false} {
			p, err := basicCredentials(header, encoded)
			if err != nil {
				e := new(oauth.Error)
				if !errors.As(err, &e) || (e.Status != http.StatusUnauthorized && e.Status != http.StatusBadRequest) {
					t.Fatalf("basicCredentials(%q) = %v, want a refusal", header, err)
				}
				continue
			}
			if p.id == "" || p.secret == "" || p.method != "basic" || !client.IsText(p.id) || !client.IsText(p.secret) {
				t.Fatalf("basicCredentials(%q) = %+v", header, p)
			}
			id, password := p.id, p.secret
			if encoded {
				id, password = url.QueryEscape(id), url.QueryEscape(password)
			}
			if !encoded && strings.Contains(id, ":") {
				t.Fatalf("basicCredentials(%q): the id %q holds a colon", header, id)
			}
			again, err := basicCredentials("Basic "+base64.StdEncoding.EncodeToString([]byte(id+":"+password)), encoded)
			if err != nil || again != p {
				t.Fatalf("basicCredentials of %+v = %+v, %v", p, again, err)
			}
		}
	})
}

// Other text than an assertion is refused. An assertion names a valid client id, the same as client_id.
func FuzzReadAssertion(f *testing.F) {
	for _, seed := range []string{
		"", "a.b.c", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.", "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJzaG9wIn0.AA",
		"eyJhbGciOiJFUzI1NiIsImNyaXQiOlsieCJdfQ.eyJzdWIiOltdfQ.AA",
	} {
		f.Add(seed, "shop")
	}
	f.Fuzz(func(t *testing.T, raw, id string) {
		query := url.Values{"client_assertion_type": {assertionType}, "client_assertion": {raw}, "client_id": {id}}.Encode()
		q, err := oauth.ParseQuery(query)
		if err != nil {
			return
		}
		p, err := (&Registry{workloads: new(workload.Issuers)}).readAssertion(q)
		if err != nil {
			e := new(oauth.Error)
			if !errors.As(err, &e) || (e.Status != http.StatusUnauthorized && e.Status != http.StatusBadRequest) {
				t.Fatalf("readAssertion(%q) = %v, want a refusal", raw, err)
			}
			return
		}
		if client.CheckID(p.id) != nil || (id != "" && p.id != id) || p.secret != raw {
			t.Fatalf("readAssertion(%q, %q) = %q", raw, id, p.id)
		}
	})
}
