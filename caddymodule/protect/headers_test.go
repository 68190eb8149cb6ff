package protect

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

func TestGuardedNames(t *testing.T) {
	t.Parallel()
	names := guardedNames([]IdentityHeader{{"X-Auth-User", "sub"}}, "X-Gate-Token")
	for name, want := range map[string]bool{
		"Remote-User": true, "REMOTE_USER": true, "remote.user": true, "Remote-Name": true, "Remote-Email": true, "Remote_Groups": true,
		"X-Auth-User": true, "x_auth.user": true,
		"Remote!User": true, "remote~user": true, "X^Auth|User": true,
		"Remote-Assertion": true, "REMOTE_ASSERTION": true, "remote.assertion": true, "x_gate.TOKEN": true,
		"X-Rewrite-Url": true, "X-Original-Url": true, "Remote-Users": false, "Remote-Use": false, "RemoteUser": false,
		"X-Auth-Use": false, "Accept": false, "": false,
	} {
		if got := names.Has(name); got != want {
			t.Errorf("has(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestWithoutOurs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		in, want []string
		found    bool
	}{
		{"none", []string{"a=1; b=2"}, []string{"a=1; b=2"}, false},
		{"untouched", []string{`a="x,y";b=2 ;; c`}, []string{`a="x,y";b=2 ;; c`}, false},
		{"only ours", []string{"gh-abcdefgh-site=x"}, nil, true},
		{"prefixed", []string{"a=1; __Host-gh-abcdefgh-site=x; b=2"}, []string{"a=1; b=2"}, true},
		{"any case", []string{"__HOST-GH-abcdefgh-site=x; a=1"}, []string{"a=1"}, true},
		{"two lines", []string{"gh-abcdefgh-site=x", "a=1"}, []string{"a=1"}, true},
		{"no space", []string{"a=1;gh-abcdefgh-browser=x;b=2"}, []string{"a=1; b=2"}, true},
		{"tab", []string{"a=1;\tgh-abcdefgh-site=x"}, []string{"a=1"}, true},
		{"value only", []string{"a=gh-abcdefgh-site;b"}, []string{"a=gh-abcdefgh-site;b"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, found := withoutOurs(tt.in)
			if !slices.Equal(got, tt.want) || found != tt.found {
				t.Errorf("withoutOurs(%q) = %q, %v, want %q, %v", tt.in, got, found, tt.want, tt.found)
			}
		})
	}
}

func TestClaim(t *testing.T) {
	t.Parallel()
	person := &token.Introspection{
		Active: true, Subject: "p1", ClientID: "shop", Scope: []string{"a", "b"}, Level: 2,
		Person: &authn.Subject{
			ID: "p1", Username: "demo", Groups: []string{"staff", "x,admin", "dev"},
			Profile: map[string]string{
				"name": "Zoë", "email": "a@example.com", "email_verified": "false", "username": "root",
				"preferred_username": "root",
			},
			Details: map[string][]string{"branch": {"1", "2"}},
		},
	}
	person.AuthorizationDetails = `[{"actions":["read"],"type":"account"}]`
	client := &token.Introspection{Active: true, Subject: "demo", ClientID: "demo"}
	of := func(said ...string) *token.Introspection { // by a provider, about an address that is not verified here
		return &token.Introspection{Active: true, Subject: "p2", Person: &authn.Subject{
			Profile: map[string]string{"email": "boss@example.com", "email_verified": "false"},
			Details: map[string][]string{"email": {"a@partner.example"}, "email_verified": said},
		}}
	}
	tests := []struct {
		who         *token.Introspection
		claim, want string
	}{
		{person, "sub", "p1"},
		{person, "username", "demo"},
		{person, "preferred_username", "demo"},
		{person, "name", "Zoë"},
		{person, "email", ""}, // not verified
		{person, "groups", "staff,dev"},
		{person, "scope", "a b"},
		{person, "acr", "urn:gatehouse:level:2"},
		{person, "branch", "1,2"},
		{person, "authorization_details", `[{"actions":["read"],"type":"account"}]`},
		{person, "authorization_details.account", "read"},
		{person, "authorization_details.payment", ""},
		{client, "authorization_details", ""},
		{person, "unknown", ""},
		{client, "sub", "demo"},
		{client, "client_id", "demo"},
		{client, "username", ""}, // a client is not the person of that name
		{client, "name", ""},
		{of("true"), "email", "a@partner.example"},
		{of("false"), "email", ""}, // the provider vouches for it no more than we do
		{of("true", "false"), "email", ""},
	}
	for _, tt := range tests {
		if got, _ := claim(tt.who, tt.claim, time.Now()); got != tt.want {
			t.Errorf("claim(%s) = %q, want %q", tt.claim, got, tt.want)
		}
	}
}

func FuzzFieldValue(f *testing.F) {
	for _, s := range []string{"demo", "Zoë", "a\r\nX-Admin: 1", "\x00", "\xff\xfe", " a\u2028b ", "\x1b[31m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v := fieldValue(s)
		if !httpguts.ValidHeaderFieldValue(v) || !utf8.ValidString(v) {
			t.Fatalf("fieldValue(%q) = %q, which is no header value", s, v)
		}
	})
}

func TestDropOurs(t *testing.T) {
	t.Parallel()
	h := http.Header{"Set-Cookie": {"a=1; Path=/", "__Host-gh-abcdefgh-site=evil; Path=/; Secure", "gh-abcdefgh-site=evil", "b=gh-x"}}
	dropOurs(h)
	if want := []string{"a=1; Path=/", "b=gh-x"}; !slices.Equal(h["Set-Cookie"], want) {
		t.Errorf("dropOurs left %q, want %q", h["Set-Cookie"], want)
	}
	h = http.Header{
		"Set-Cookie":                      {"=gh-abcdefgh-site=evil", `"gh-abcdefgh-site"=evil`, " gh-abcdefgh-site=evil"},
		http.TrailerPrefix + "Set-Cookie": {"gh-abcdefgh-site=evil", "a=1"},
	}
	dropOurs(h)
	if got := h[http.TrailerPrefix+"Set-Cookie"]; len(h["Set-Cookie"]) > 0 || !slices.Equal(got, []string{"a=1"}) {
		t.Errorf("dropOurs left %q, and %q in trailers", h["Set-Cookie"], got)
	}
}

// TestFieldValueIsWholeOrAbsent: a value that is too long for a header is left out. Cut, it could be that of another
// person.
func TestFieldValueIsWholeOrAbsent(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{maxFieldValue: maxFieldValue, maxFieldValue + 1: 0, 10 * maxFieldValue: 0} {
		if got := fieldValue(strings.Repeat("x", n)); len(got) != want {
			t.Errorf("fieldValue of %d characters has %d, want %d", n, len(got), want)
		}
	}
}

// TestBrowserNeedsTheLevelOfTheScopes: the session of a site stands for a token with the scopes of the site, so it must
// have the level that they need, though it has no scopes itself.
func TestBrowserNeedsTheLevelOfTheScopes(t *testing.T) {
	t.Parallel()
	p := &Protect{Scopes: []string{"a"}, reach: 3, now: time.Now}
	who := person(2)
	who.Scope = nil
	if got := p.examine(who, true); got != tooLow {
		t.Errorf("a browser at level 2, where the scope needs 3: verdict %d, want %d", got, tooLow)
	}
	if who.Level = 3; p.examine(who, true) != allowed {
		t.Error("a browser at level 3 is refused")
	}
	if got := p.examine(person(2), false); got != allowed {
		t.Errorf("a token, which has the scope already: verdict %d, want %d", got, allowed)
	}
}

func TestCheckIdentityHeader(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Remote-User", "X-Auth-User", "x-webauth-user"} {
		if err := checkIdentityHeader(name); err != nil {
			t.Errorf("checkIdentityHeader(%q) = %v, want nil", name, err)
		}
	}
	for _, name := range []string{
		"", "a b", "X_User", "Host", "cookie", "Authorization", "Connection", "X-Forwarded-User",
		"Sec-Fetch-Mode", "Content-Length", "a:b",
	} {
		if checkIdentityHeader(name) == nil {
			t.Errorf("checkIdentityHeader(%q) = nil, want an error", name)
		}
	}
}
