package protect

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
)

func FuzzBearer(f *testing.F) {
	for _, s := range []string{
		"Bearer x", "bearer  x", "Bearer", "Basic eDp5", "Bearer x,y", "Bearer\tx", "Bearerx y", "Bearer é",
		"DPoP x", "dpop", "DPoPx y",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, v string) {
		token, byProof, bad := (&credentials{authorization: []string{v}}).bearer()
		switch {
		case bad != nil && token != "":
			t.Fatalf("bearer(%q) = %q and a refusal", v, token)
		case token != "" && (len(v) < len("DPoP ")+len(token) || !strings.HasSuffix(v, " "+token) || strings.ContainsAny(token, " \t,\"")):
			t.Fatalf("bearer(%q) = %q", v, token)
		case token == "" && bad == nil && strings.HasPrefix(strings.ToLower(v), "bearer "):
			t.Fatalf("bearer(%q) is nobody's", v)
		case byProof != strings.HasPrefix(strings.ToLower(v), "dpop") && token != "":
			t.Fatalf("bearer(%q) is by proof: %v", v, byProof)
		}
	})
}

func FuzzWithoutOurs(f *testing.F) {
	for _, s := range []string{
		"a=1; gh-abcdefgh-site=x", "__Host-gh-abcdefgh-site=x;b", ";;", "gh-abcdefgh-site",
		"a=\"gh-abcdefgh-site=x\"",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		kept, found := withoutOurs([]string{line})
		if !found && (len(kept) != 1 || kept[0] != line) {
			t.Fatalf("withoutOurs(%q) = %q, though nothing was found", line, kept)
		}
		r := &http.Request{Header: http.Header{"Cookie": kept}}
		for _, c := range r.Cookies() {
			if cookie.IsOurs(c.Name) {
				t.Fatalf("withoutOurs(%q) = %q, which holds %s", line, kept, c.Name)
			}
		}
	})
}
