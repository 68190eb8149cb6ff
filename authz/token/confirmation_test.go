package token_test

import (
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/token"
)

// TestABoundTokenOpensToItsKeyAlone: what is bound to a key or certificate is inactive for everybody who has not proved
// to have that one.
func TestABoundTokenOpensToItsKeyAlone(t *testing.T) {
	t.Parallel()
	free, key, certificate := token.Confirmation{}, token.Confirmation{JKT: "one"}, token.Confirmation{X5T: "one"}
	for name, tc := range map[string]struct {
		bound, proved token.Confirmation
		want          bool
	}{
		"a bearer token":                             {free, free, true},
		"a bearer token with a proof":                {free, key, true},
		"nothing is proved for a key":                {key, free, false},
		"its key":                                    {key, key, true},
		"another key":                                {key, token.Confirmation{JKT: "two"}, false},
		"a certificate in place of the key":          {key, certificate, false},
		"nothing is proved for a certificate":        {certificate, free, false},
		"its certificate":                            {certificate, certificate, true},
		"another certificate":                        {certificate, token.Confirmation{X5T: "two"}, false},
		"a key in place of the certificate":          {certificate, key, false},
		"its key, and the certificate of the client": {key, token.Confirmation{JKT: "one", X5T: "two"}, true},
	} {
		in := &token.Introspection{Active: true, Subject: "ann", Confirmation: tc.bound}
		out := in.For(tc.proved)
		if out.Active != tc.want || tc.want != (out.Subject == "ann") {
			t.Errorf("%s: For(%+v) of %+v is active = %v, want %v", name, tc.proved, tc.bound, out.Active, tc.want)
		}
	}
	if got := key.TokenType(); got != "DPoP" {
		t.Errorf("the type of a token with a key is %q, want DPoP", got)
	}
	if got := certificate.TokenType(); got != "bearer" {
		t.Errorf("the type of a token with a certificate is %q, want bearer: it is sent as one (RFC 8705 3)", got)
	}
}
