package authz

import (
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/client"
)

func FuzzParseClaims(f *testing.F) {
	for _, seed := range []string{
		`{"userinfo":{"name":null}}`, `{"id_token":{"sub":{"value":"x"}}}`, `{`,
		`{"userinfo":{"name":{"values":[1,{},[]]}}}`, "\x00",
	} {
		f.Add(seed)
	}
	c := &client.Client{Scopes: []string{"openid", "profile"}}
	f.Fuzz(func(t *testing.T, raw string) {
		p, err := parseClaims(raw)
		if err != nil {
			return
		}
		for _, of := range []map[string]*wantedClaim{p.Userinfo, p.IDToken} {
			for _, wanted := range of {
				wanted.texts()
			}
		}
		got := p.request(c)
		for _, name := range append(got.Userinfo, got.IDToken...) {
			if client.ScopeOfClaim(name) != "profile" {
				t.Errorf("request(%q) has %q, which no scope of the client gives", raw, name)
			}
		}
	})
}
