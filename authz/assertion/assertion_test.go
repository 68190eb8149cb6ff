package assertion_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/assertion"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/internal/clocktest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

func newSigner(t testing.TB) (*assertion.Signer, *keys.Keys, *clocktest.Clock) {
	t.Helper()
	now := clocktest.New(time.Date(2035, 3, 1, 12, 0, 0, 0, time.UTC))
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // in memory
	ring, err := secret.NewKeyring(bytes.Repeat([]byte{1}, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	k, err := keys.New(t.Context(), store, ring, now.Now, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return assertion.New("https://issuer.test", k, now.Now), k, now
}

func about(path string) assertion.Statement {
	return assertion.Statement{
		Audience: "https://wiki.test", Subject: "ada", Session: "s1", ACR: "urn:gatehouse:level:2", Groups: []string{"staff"},
		Request: assertion.Request{Method: "GET", Host: "wiki.test", Path: path},
	}
}

func sign(t testing.TB, s *assertion.Signer, st assertion.Statement) string {
	t.Helper()
	text, err := s.Sign(st)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAssertionSaysWhoAskedForWhat(t *testing.T) {
	t.Parallel()
	s, k, now := newSigner(t)
	raw, err := k.Verify(sign(t, s, about("/a")), keys.TypeAssertion)
	if err != nil {
		t.Fatal(err)
	}
	// The hash is written down, since upstreams compute it:
	// printf 'GET\nwiki.test\n/a\n' | openssl sha256 -binary | basenc --base64url
	want := `{"iss":"https://issuer.test","aud":"https://wiki.test","sub":"ada","sid":"s1","acr":"urn:gatehouse:level:2","groups":["staff"],` +
		`"cnf":{"req#S256":"yamRsWN3dUp82Y_E32bPvrebrSbS_1v6xJSInPGDNjw"},` +
		fmt.Sprintf(`"iat":%d,"exp":%d}`, now.Now().Unix(), now.Now().Unix()+60)
	if string(raw) != want {
		t.Errorf("claims = %s, want %s", raw, want)
	}
}

// TestAssertionIsNoOtherToken: each kind of token that we sign is accepted as itself alone.
func TestAssertionIsNoOtherToken(t *testing.T) {
	t.Parallel()
	s, k, _ := newSigner(t)
	types := []string{keys.TypeIDToken, keys.TypeAccessToken, keys.TypeLogout}
	text := sign(t, s, about("/"))
	for _, typ := range types {
		if _, err := k.Verify(text, typ); err == nil {
			t.Errorf("an assertion passes for %s", typ)
		}
		other, err := k.Sign("ES256", typ, map[string]string{"iss": "https://issuer.test", "aud": "https://wiki.test", "sub": "ada"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Verify(other, keys.TypeAssertion); err == nil {
			t.Errorf("%s passes for an assertion", typ)
		}
	}
}

// TestAssertionOfAnotherRequestDiffers: what is kept in memory for one request is not handed out for another, nor for
// another person, session, level, group or site.
func TestAssertionOfAnotherRequestDiffers(t *testing.T) {
	t.Parallel()
	s, _, _ := newSigner(t)
	seen := map[string]string{sign(t, s, about("/")): "the first"}
	for name, change := range map[string]func(*assertion.Statement){
		"path":    func(st *assertion.Statement) { st.Request.Path = "/b" },
		"method":  func(st *assertion.Statement) { st.Request.Method = "POST" },
		"host":    func(st *assertion.Statement) { st.Request.Host = "wiki.test:8443" },
		"subject": func(st *assertion.Statement) { st.Subject = "bob" },
		"session": func(st *assertion.Statement) { st.Session = "s2" },
		"level":   func(st *assertion.Statement) { st.ACR = "" },
		"groups":  func(st *assertion.Statement) { st.Groups = []string{"staff", "admins"} },
		"no group": func(st *assertion.Statement) {
			st.Groups = nil
		},
		"client":   func(st *assertion.Statement) { st.Client = "shop" },
		"audience": func(st *assertion.Statement) { st.Audience = "https://api.test" },
		"parts that read alike": func(st *assertion.Statement) {
			st.Request = assertion.Request{Method: "GETwiki", Host: ".test", Path: "/"}
		},
	} {
		st := about("/")
		change(&st)
		text := sign(t, s, st)
		if other, ok := seen[text]; ok {
			t.Errorf("%s has the assertion of %s", name, other)
		}
		seen[text] = name
	}
}

func TestAssertionIsSignedAnewBeforeItExpires(t *testing.T) {
	t.Parallel()
	s, k, now := newSigner(t)
	now.Advance(2 * time.Hour)
	first := sign(t, s, about("/"))
	now.Advance(29 * time.Second)
	if sign(t, s, about("/")) != first {
		t.Error("an assertion was signed again after 29 s")
	}
	for range 10 { // others do not prolong it
		sign(t, s, about("/other"))
		now.Advance(time.Second)
		text := sign(t, s, about("/"))
		raw, err := k.Verify(text, keys.TypeAssertion)
		if err != nil {
			t.Fatal(err)
		}
		var c struct {
			Expires int64 `json:"exp"`
		}
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		if left := c.Expires - now.Now().Unix(); left <= 30 || left > 60 {
			t.Errorf("an assertion is handed out %d s before it expires, want 31 to 60", left)
		}
	}
	now.Advance(-time.Hour) // a clock that was set back
	if text := sign(t, s, about("/")); text == first {
		t.Error("an assertion of the future was handed out")
	}
}

func TestAssertionLeavesOutGroupsThatFitInNoHeader(t *testing.T) {
	t.Parallel()
	s, k, _ := newSigner(t)
	groups := func(list []string) string {
		st := about("/")
		st.Groups = list
		text := sign(t, s, st)
		if len(text) > 8<<10 {
			t.Errorf("the assertion has %d bytes", len(text))
		}
		raw, err := k.Verify(text, keys.TypeAssertion)
		if err != nil {
			t.Fatal(err)
		}
		var c map[string]json.RawMessage
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		return string(c["groups"])
	}
	if got := groups(nil); got != "[]" {
		t.Errorf("groups of a person without groups = %q, want []", got)
	}
	if got := groups([]string{strings.Repeat("g", 5000)}); got != "" {
		t.Errorf("groups that do not fit = %.20q, want none", got)
	}
}

// TestAssertionsInMemoryAreBounded is about a client that asks for another path each time.
func TestAssertionsInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	s, _, _ := newSigner(t)
	first := sign(t, s, about("/"))
	for i := range 8192 {
		sign(t, s, about(fmt.Sprint("/", i)))
	}
	if sign(t, s, about("/")) == first {
		t.Error("8192 newer assertions have not displaced the first")
	}
}

func BenchmarkSign(b *testing.B) {
	s, _, _ := newSigner(b)
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			sign(b, s, about("/"))
		}
	})
	b.Run("another path each time", func(b *testing.B) {
		i := 0
		for b.Loop() {
			i++
			sign(b, s, about(fmt.Sprint("/", i)))
		}
	})
}
