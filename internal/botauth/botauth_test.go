package botauth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/botauth/botauthtest"
)

var start = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// everyone is the interest in all robots of a rule that names none.
func everyone(string) (wanted, named bool) { return true, false }

// ask returns what a verifier says of a request with headers.
func (v *Verifier) ask(t *testing.T, headers map[string]string) (string, error) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://site.example/docs?x=1", http.NoBody)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	return v.Agent(t.Context(), r, "192.0.2.1", everyone)
}

func newVerifier(b *botauthtest.Robot, now *time.Time) *Verifier {
	v := New(func() time.Time { return *now })
	v.Fetch(b.Client)
	return v
}

// TestVector is the example of RFC 9421 B.2.6: the base of a request, and its signature by the key of B.1.4.
func TestVector(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "http://example.com/foo?param=Value&Pet=dog", http.NoBody)
	for name, value := range map[string]string{
		"Date": "Tue, 20 Apr 2021 02:07:55 GMT", "Content-Type": "application/json", "Content-Length": "18",
		"Signature-Input": `sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"`,
		"Signature":       "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:",
	} {
		r.Header.Set(name, value)
	}
	list, err := signaturesOf(r, "")
	if err != nil || len(list) != 1 {
		t.Fatalf("signatures: %v, %v", list, err)
	}
	base, err := list[0].base(r)
	want := `"date": Tue, 20 Apr 2021 02:07:55 GMT
"@method": POST
"@path": /foo
"@authority": example.com
"content-type": application/json
"content-length": 18
"@signature-params": ("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"`
	if err != nil || base != want {
		t.Fatalf("base = %q, %v", base, err)
	}
	public, err := base64.RawURLEncoding.DecodeString("JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs")
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(ed25519.PublicKey(public), "", base, list[0].value); err != nil {
		t.Error(err)
	}
	if err := verify(ed25519.PublicKey(public), "rsa-pss-sha512", base, list[0].value); err == nil {
		t.Error("a signature of another algorithm than it says is accepted")
	}
}

// TestComponents: what a signature can cover besides the host. (RFC 9421 2.2)
func TestComponents(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "http://Site.example:80/a%20b?x=1&x=2", http.NoBody)
	r.Header["X-Two"] = []string{" a ", "b"}
	r.Header.Set("Dict", `a=1, b=("x" "y");q=1`)
	for components, want := range map[string]string{
		`"@authority"`:      "site.example",
		`"@method"`:         "GET",
		`"@scheme"`:         "http",
		`"@path"`:           "/a%20b",
		`"@query"`:          "?x=1&x=2",
		`"@target-uri"`:     "http://site.example/a%20b?x=1&x=2",
		`"@request-target"`: "http://Site.example:80/a%20b?x=1&x=2",
		`"x-two"`:           "a, b",
		`"host"`:            "Site.example:80",
		`"dict";key="b"`:    `("x" "y");q=1`,
	} {
		r.Header.Set("Signature-Input", `s=(`+components+`);tag="x"`)
		r.Header.Set("Signature", "s=:AA==:")
		list, err := signaturesOf(r, "x")
		if err != nil {
			t.Fatal(err)
		}
		base, err := list[0].base(r)
		if got, _, _ := strings.Cut(base, "\n"); err != nil || got != components+": "+want {
			t.Errorf("%s = %q, %v; want %q", components, got, err, want)
		}
	}
	for _, components := range []string{
		`"@status"`, `"@query-param";name="x"`, `"missing"`, `"Upper"`, `"@method";req`, `"x-two";bs`, `"x-two";sf`, `"dict";key="c"`,
		`"@method" "@method"`, `1`,
	} {
		r.Header.Set("Signature-Input", `s=(`+components+`);tag="x"`)
		list, err := signaturesOf(r, "x")
		if err != nil {
			t.Fatal(err)
		}
		if base, err := list[0].base(r); err == nil {
			t.Errorf("%s is supported: %q", components, base)
		}
	}
}

// TestAlgorithms: the algorithms of RFC 9421 3.3 with public keys, each with the key that it is for.
func TestAlgorithms(t *testing.T) {
	t.Parallel()
	const base = "base"
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(base))
	a, b, err := ecdsa.Sign(rand.Reader, ec, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	raw := append(a.FillBytes(make([]byte, 32)), b.FillBytes(make([]byte, 32))...)
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	long := sha512.Sum512([]byte(base))
	pss, err := rsa.SignPSS(rand.Reader, rs, 7, long[:], &rsa.PSSOptions{SaltLength: 64})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key   any
		alg   string
		value []byte
		ok    bool
	}{
		"P-256":                  {&ec.PublicKey, "ecdsa-p256-sha256", raw, true},
		"P-256 without a name":   {&ec.PublicKey, "", raw, true},
		"P-256 as Ed25519":       {&ec.PublicKey, "ed25519", raw, false},
		"P-256, cut":             {&ec.PublicKey, "", raw[:63], false},
		"RSA-PSS":                {&rs.PublicKey, "rsa-pss-sha512", pss, true},
		"RSA-PSS as PKCS #1 1.5": {&rs.PublicKey, "rsa-v1_5-sha256", pss, false},
		"a shared secret":        {[]byte("secret"), "hmac-sha256", pss, false},
	} {
		if err := verify(c.key, c.alg, base, c.value); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAgent: the domain of a robot by its signature, in both forms of the header, once.
func TestAgent(t *testing.T) {
	t.Parallel()
	now := start
	b := botauthtest.New(t)
	v := newVerifier(b, &now)
	headers := b.Sign("site.example", now)
	if got, err := v.ask(t, headers); err != nil || got != b.Domain {
		t.Fatalf("Agent = %q, %v; want %s", got, err, b.Domain)
	}
	t.Run("attack 5243: a signature a second time", func(t *testing.T) {
		if got, err := v.ask(t, headers); !errors.Is(err, errReplayed) {
			t.Errorf("Agent = %q, %v", got, err)
		}
	})
	text := b.Sign("site.example", now, "components", `"@authority" "signature-agent"`,
		"base", `"@authority": site.example`+"\n"+`"signature-agent": "https://`+b.Domain+`"`)
	text["Signature-Agent"] = `"https://` + b.Domain + `"`
	if got, err := v.ask(t, text); err != nil || got != b.Domain {
		t.Errorf("with the header of an earlier draft: %q, %v", got, err)
	}
	if n := b.Fetches.Load(); n != 1 {
		t.Errorf("the directory was fetched %d times, want once", n)
	}
	now = now.Add(6 * time.Minute)
	if _, err := v.ask(t, b.Sign("site.example", now)); err != nil || b.Fetches.Load() != 2 {
		t.Errorf("after its time: %v, %d fetches", err, b.Fetches.Load())
	}
	if got, err := v.ask(t, map[string]string{"User-Agent": "Googlebot"}); !errors.Is(err, ErrUnsigned) || got != "" {
		t.Errorf("a User-Agent alone = %q, %v", got, err)
	}
}

// TestAttacksOnRobots: signatures that do not say that the robot of the domain has made this request.
func TestAttacksOnRobots(t *testing.T) {
	t.Parallel()
	now := start
	b, other := botauthtest.New(t), botauthtest.New(t)
	unix := func(d time.Duration) string { return fmt.Sprint(now.Add(d).Unix()) }
	for name, change := range map[string]func(h map[string]string) map[string]string{
		"attack 7418: another host":         func(map[string]string) map[string]string { return b.Sign("evil.example", now) },
		"attack 7418: a key of another one": func(map[string]string) map[string]string { return b.Sign("site.example", now, "keyid", other.ID) },
		"attack 7418: no key":               func(map[string]string) map[string]string { return b.Sign("site.example", now, "keyid", "") },
		"attack 7418: another algorithm": func(map[string]string) map[string]string {
			return b.Sign("site.example", now,
				"alg", "rsa-pss-sha512")
		},
		"attack 7418: for another purpose": func(map[string]string) map[string]string { return b.Sign("site.example", now, "tag", "other") },
		"attack 7418: ended":               func(map[string]string) map[string]string { return b.Sign("site.example", now.Add(-2*time.Minute)) },
		"attack 7418: of the future":       func(map[string]string) map[string]string { return b.Sign("site.example", now.Add(time.Minute)) },
		"attack 7418: valid for two days": func(map[string]string) map[string]string {
			return b.Sign("site.example", now, "expires", unix(48*time.Hour))
		},
		"attack 7418: times that are texts": func(map[string]string) map[string]string {
			return b.Sign("site.example", now, "created", `"`+unix(0)+`"`)
		},
		"attack 7418: the host not covered": func(map[string]string) map[string]string {
			return b.Sign("site.example", now, "components", `"signature-agent";key="sig1"`, "base",
				`"signature-agent";key="sig1": "https://`+b.Domain+`"`)
		},
		"attack 7418: the agent not covered": func(map[string]string) map[string]string {
			return b.Sign("site.example", now, "components", `"@authority"`, "base", `"@authority": site.example`)
		},
		"attack 7418: another agent": func(h map[string]string) map[string]string {
			h["Signature-Agent"] = `sig1="https://` + other.Domain + `"`
			return h
		},
		"attack 7418: an agent that is no host": func(h map[string]string) map[string]string {
			h["Signature-Agent"] = `sig1="http://` + b.Domain + `"`
			return h
		},
		"attack 7418: an agent with a path": func(h map[string]string) map[string]string {
			h["Signature-Agent"] = `sig1="https://` + b.Domain + `/x"`
			return h
		},
		"attack 7418: a changed signature": func(h map[string]string) map[string]string {
			h["Signature"] = "sig1=:" + base64.StdEncoding.EncodeToString(make([]byte, 64)) + ":"
			return h
		},
		"attack 7418: no signature": func(h map[string]string) map[string]string { delete(h, "Signature"); return h },
		"attack 7418: huge headers": func(h map[string]string) map[string]string {
			h["Signature-Input"] += `, x=();tag="` + strings.Repeat("a", 9<<10) + `"`
			return h
		},
		"attack 7418: malformed headers": func(h map[string]string) map[string]string { h["Signature-Input"] = "sig1=(("; return h },
	} {
		t.Run(name, func(t *testing.T) {
			v := newVerifier(b, &now)
			if got, err := v.ask(t, change(b.Sign("site.example", now))); err == nil || got != "" {
				t.Errorf("Agent = %q, %v", got, err)
			}
		})
	}
}

// TestSignaturesWithoutEnd: who sends more signatures than are remembered takes no room but their own.
func TestSignaturesWithoutEnd(t *testing.T) {
	t.Parallel()
	fill := func(v *Verifier, n int, by signer, ends, now time.Time) (err error) {
		for i := range n {
			if err = v.spend(fmt.Sprint(by, ends.Unix(), i), by, ends, now); err != nil {
				return err
			}
		}
		return nil
	}
	named := func(string) (bool, bool) { return true, true }
	t.Run("attack 8618: a domain that anyone can have", func(t *testing.T) {
		t.Parallel()
		now := start
		b := botauthtest.New(t)
		known, evil := b.Domain, b.Client.Transport
		v := newVerifier(b, &now)
		v.Fetch(&http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.URL.Host = known // each host has the same keys
			return evil.RoundTrip(r)
		})})
		ask := func(domain string, wants Interest) error {
			b.Domain = domain
			r := httptest.NewRequest(http.MethodGet, "http://site.example/docs", http.NoBody)
			for name, value := range b.Sign("site.example", now, "expires", fmt.Sprint(now.Add(24*time.Hour).Unix())) {
				r.Header.Set(name, value)
			}
			_, err := v.Agent(t.Context(), r, domain, wants)
			return err
		}
		day := now.Add(24 * time.Hour)
		if err := fill(v, maxStranger-1, signer{"evil.test", false}, day, now); err != nil {
			t.Fatal(err)
		}
		if err := ask("a.evil.test", everyone); err != nil {
			t.Fatalf("the last signature of a share: %v", err)
		}
		for _, domain := range []string{"evil.test", "b.evil.test:8443", "c.d.evil.test"} {
			if err := ask(domain, everyone); !errors.Is(err, errFull) {
				t.Errorf("one more of %s: %v", domain, err)
			}
		}
		if err := ask("bot.honest.test", everyone); err != nil {
			t.Errorf("another robot: %v", err)
		}
		for i := 0; v.strangers < maxStrangers; i++ { // at the price of sixteen domains
			_ = fill(v, min(maxStranger, maxStrangers-v.strangers), signer{fmt.Sprintf("evil%d.test", i), false}, day, now)
		}
		if err := ask("bot.other.test", everyone); !errors.Is(err, errFull) {
			t.Errorf("a robot that no rule names: %v", err)
		}
		for _, domain := range []string{"bot.named.test", "named.evil.test"} {
			if err := ask(domain, named); err != nil {
				t.Errorf("a robot that a rule names, %s: %v", domain, err)
			}
		}
		now = day
		if err := ask("b.evil.test", everyone); err != nil || len(v.used) != 1 {
			t.Errorf("after a day: %v, %d signatures are remembered", err, len(v.used))
		}
	})
	t.Run("attack 8618: a robot whose signatures are valid for long", func(t *testing.T) {
		t.Parallel()
		v, busy := New(time.Now), signer{"busy.test", true}
		if err := fill(v, maxNamed, busy, start.Add(time.Hour), start); err != nil {
			t.Fatal(err)
		}
		if err := v.spend("one more", busy, start.Add(time.Hour), start); !errors.Is(err, errFull) {
			t.Errorf("one more: %v", err)
		}
		if err := v.spend("other", signer{"other.test", true}, start.Add(time.Hour), start); err != nil {
			t.Errorf("another robot: %v", err)
		}
		if err := v.spend("later", busy, start.Add(2*time.Hour), start.Add(time.Hour)); err != nil {
			t.Errorf("once they have ended: %v", err)
		}
	})
}

// TestRegistered: who hands out names below a domain of their own has one share for all of them.
func TestRegistered(t *testing.T) {
	t.Parallel()
	for domain, want := range map[string]string{
		"example.com": "example.com", "a.b.example.com:8443": "example.com", "a.example.co.uk.": "example.co.uk", "co.uk": "co.uk",
		"a.mallory.github.io": "github.io", "github.io": "github.io", "bot.example": "bot.example", "a.bot.example": "bot.example",
		"localhost:8443": "localhost", "192.0.2.1:443": "192.0.2.1", "[2001:db8::1]:443": "2001:db8::1", "[2001:db8::1]": "[2001:db8::1]",
	} {
		if got := registered(domain); got != want {
			t.Errorf("registered(%q) = %q, want %q", domain, got, want)
		}
	}
}

// TestDirectories: what is fetched is bounded, and a directory that is no good makes no robot.
func TestDirectories(t *testing.T) {
	t.Parallel()
	now := start
	answer := func(status int, kind, body string) *http.HandlerFunc {
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			w.Write([]byte(body)) //nolint:errcheck // the client has gone
		})
		return &h
	}
	for name, h := range map[string]*http.HandlerFunc{
		"an error":      answer(500, "application/json", `{"keys":[]}`),
		"a redirect":    answer(302, "application/json", `{"keys":[]}`),
		"a page":        answer(200, "text/html", `{"keys":[]}`),
		"no keys":       answer(200, "application/json", `{"keys":[]}`),
		"no set":        answer(200, "application/json", `[]`),
		"too many keys": answer(200, "application/json", `{"keys":[`+strings.Repeat(`{},`, 40)+`{}]}`),
		"too large":     answer(200, "application/json", strings.Repeat(" ", 2<<20)),
	} {
		b := botauthtest.New(t)
		b.Answer.Store(h)
		v := newVerifier(b, &now)
		for range 3 {
			if got, err := v.ask(t, b.Sign("site.example", now)); err == nil {
				t.Errorf("%s: Agent = %q", name, got)
			}
		}
		if n := b.Fetches.Load(); n != 1 {
			t.Errorf("%s: fetched %d times, want once within its time", name, n)
		}
	}
	t.Run("attack 6871: directories without end", func(t *testing.T) {
		b := botauthtest.New(t)
		v := newVerifier(b, &now)
		asked := 0
		v.Fetch(&http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) { asked++; return nil, errors.New("away") })})
		for i := range 100 {
			b.Domain = fmt.Sprintf("robot%d.example", i)
			if _, err := v.ask(t, b.Sign("site.example", now)); err == nil {
				t.Fatal("a robot without a directory")
			}
		}
		if asked != 10 {
			t.Errorf("one address has had %d directories fetched in a minute, want 10", asked)
		}
	})
	t.Run("a domain that no rule names", func(t *testing.T) {
		b := botauthtest.New(t)
		v := newVerifier(b, &now)
		r := httptest.NewRequest(http.MethodGet, "http://site.example/", http.NoBody)
		for name, value := range b.Sign("site.example", now) {
			r.Header.Set(name, value)
		}
		_, err := v.Agent(t.Context(), r, "192.0.2.1", func(string) (bool, bool) { return false, false })
		if !errors.Is(err, errUnwanted) || b.Fetches.Load() != 0 {
			t.Errorf("%v, %d fetches", err, b.Fetches.Load())
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestKeys: the keys of a directory that count.
func TestKeys(t *testing.T) {
	t.Parallel()
	const x = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"
	for name, c := range map[string]struct {
		key  string
		want int
	}{
		"Ed25519":         {`{"kty":"OKP","crv":"Ed25519","x":"` + x + `"}`, 1},
		"with its time":   {`{"kty":"OKP","crv":"Ed25519","x":"` + x + `","nbf":1,"exp":2}`, 1},
		"with a private":  {`{"kty":"OKP","crv":"Ed25519","x":"` + x + `","d":"n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU"}`, 0},
		"symmetric":       {`{"kty":"oct","k":"AAAA"}`, 0},
		"weak RSA":        {`{"kty":"RSA","n":"AQAB","e":"AQAB"}`, 0},
		"something else":  {`{"kty":"AKP","alg":"ML-DSA-44","pub":"AA"}`, 0},
		"times of nowhen": {`{"kty":"OKP","crv":"Ed25519","x":"` + x + `","nbf":"x"}`, 0},
	} {
		keys, err := readKeys([]byte(`{"keys":[` + c.key + `]}`))
		if err != nil || len(keys) != c.want {
			t.Errorf("%s: %d keys, %v; want %d", name, len(keys), err, c.want)
		}
	}
}
