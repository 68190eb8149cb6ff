package introspect_test

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/introspect"
)

// TestShapes reads what known servers answer.
func TestShapes(t *testing.T) {
	t.Parallel()
	read := func(t *testing.T, file string, change ...func(*lab, *introspect.Options)) *token.Introspection {
		t.Helper()
		raw, err := os.ReadFile("testdata/" + file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := json.Unmarshal(raw, &doc); err != nil {
			t.Fatal(err)
		}
		l := open(t, change...)
		l.says("token", doc)
		return l.look("token")
	}
	groups := func(claims ...string) func(*lab, *introspect.Options) {
		return with(func(o *introspect.Options) { o.Groups = claims })
	}
	for _, tt := range []struct {
		file            string
		change          func(*lab, *introspect.Options)
		client, sub     string
		user, partition string
		groups          []string
		level           int
		claims          map[string]string
	}{
		{
			"keycloak", func(_ *lab, o *introspect.Options) {
				o.Groups, o.Levels = []string{"groups", "realm_access.roles", "resource_access.shop.roles"}, map[string]caddyfileutil.Count{"gold": "3"}
			},
			"shop", "f:7c9e:alice", "alice", "",
			[]string{"/office", "buyer", "offline_access", "staff"},
			3,
			map[string]string{"email": "alice@example.com", "email_verified": "truetrue", "name": "Alice Example"},
		},
		{
			"hydra", groups("ext.groups"), "9f1e", "alice@id", "", "",
			[]string{"staff"},
			0,
			map[string]string{"email": "alice@example.com", "email_verified": "truetrue", "department": "sales", "ext.department": "sales"},
		},
		{
			"zitadel", groups("urn:zitadel:iam:org:project:roles"), "2201@corp", "163840776835432705", "alice@corp.zitadel.cloud", "",
			[]string{"buyer", "staff"},
			0,
			map[string]string{"email_verified": "falsefalse", "name": "Alice Example"},
		},
		{"gatehouse", groups(), "shop", "4hx2", `north\alice`, "north", []string{"staff"}, 2, map[string]string{"department": "sales"}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			t.Parallel()
			in := read(t, tt.file, tt.change)
			if !in.Active || in.ClientID != tt.client || in.Subject != tt.sub || in.Person == nil {
				t.Fatalf("client %q, subject %q, person %v, active %t", in.ClientID, in.Subject, in.Person, in.Active)
			}
			p := in.Person
			if p.ID != tt.sub || p.Username != tt.user || p.Partition != tt.partition || !slices.Equal(p.Groups, tt.groups) || in.Level != tt.level {
				t.Errorf("person %+v of level %d", p, in.Level)
			}
			if !slices.Contains(in.Scope, "orders.read") || !slices.Contains(in.Audience, "https://api.example.com") ||
				in.ExpiresAt.Unix() != 1790000300 {
				t.Errorf("scope %q, audience %q, until %v", in.Scope, in.Audience, in.ExpiresAt)
			}
			for name, want := range tt.claims {
				if got := p.Profile[name] + strings.Join(p.Details[name], ","); got != want {
					t.Errorf("claim %s = %q, want %q", name, got, want)
				}
			}
		})
	}
	t.Run("a client with a token of its own is no person", func(t *testing.T) {
		t.Parallel()
		if in := read(t, "keycloak-client", groups("realm_access.roles")); in.Person != nil || in.Level != 0 || in.ClientID != "batch" {
			t.Errorf("%+v", in)
		}
		l := open(t)
		for _, doc := range []map[string]any{active(map[string]any{"sub": "shop"}), active(map[string]any{"sub": nil})} {
			l.says("token", doc)
			if in := l.look("token"); in.Person != nil || in.Subject != "shop" {
				t.Errorf("%v: %+v", doc, in)
			}
		}
	})
}

// TestQuestion checks what the server is sent.
func TestQuestion(t *testing.T) {
	t.Parallel()
	t.Run("a secret in the header", func(t *testing.T) {
		t.Parallel()
		l := open(t)
		l.says("token", active())
		l.accepted("basic", "token")
		user, password, _ := (&http.Request{Header: l.header}).BasicAuth()
		if user != "ops" || password != "s3cret%2Fwith%2Bsigns%26%3D%25" || l.asked[0].Has("client_secret") {
			t.Errorf("credentials %q %q, form %v", user, password, l.asked[0])
		}
		if l.asked[0].Get("token_type_hint") != "access_token" || l.asked[0].Has("recheck") {
			t.Errorf("form = %v", l.asked[0])
		}
	})
	t.Run("a secret in the form", func(t *testing.T) {
		t.Parallel()
		l := open(t, with(func(o *introspect.Options) { o.Auth = "post" }))
		l.says("token", active())
		l.accepted("post", "token")
		if f := l.asked[0]; f.Get("client_id") != "ops" || f.Get("client_secret") != clientSecret || l.header.Get("Authorization") != "" {
			t.Errorf("form = %v", f)
		}
	})
	t.Run("odd tokens arrive as they were sent", func(t *testing.T) {
		t.Parallel()
		l := open(t, with(func(o *introspect.Options) { o.Cache = "1h" }))
		odd := []string{"a+b/c==", "a b", "a&active=true", "a%00", "a\x00b", "\xff\xfe", strings.Repeat("x", 8<<10), "é", "a", "a ", "A", ""}
		for i, text := range odd {
			l.says(text, active(map[string]any{"sub": "person-" + string(rune('a'+i))}))
		}
		for range 2 { // the second time from memory
			for i, text := range odd {
				if in := l.look(text); in.Subject != "person-"+string(rune('a'+i)) {
					t.Errorf("Introspect(%.20q) = the token of %s", text, in.Subject)
				}
			}
		}
		for i, f := range l.asked {
			if f.Get("token") != odd[i] || len(f["token"]) != 1 || f.Has("active") {
				t.Errorf("the server was asked %.40q, want %.20q", f, odd[i])
			}
		}
		if len(l.asked) != len(odd) {
			t.Errorf("asked %d times about %d tokens", len(l.asked), len(odd))
		}
	})
}

// TestCache checks how long an answer is used again.
func TestCache(t *testing.T) {
	t.Parallel()
	t.Run("off unless it is asked for", func(t *testing.T) {
		t.Parallel()
		l := open(t)
		l.says("token", active())
		l.accepted("first", "token")
		l.says("token", nil)
		l.refused("revoked", "token")
	})
	t.Run("no longer than the option says, counted from the question", func(t *testing.T) {
		t.Parallel()
		l := open(t, with(func(o *introspect.Options) { o.Cache = "5s" }))
		l.change(func() {
			l.answer = func(w http.ResponseWriter, _ *http.Request) {
				l.turn(2 * time.Second) // it takes its time
				write(w, active())
			}
		})
		l.accepted("first", "token")
		l.change(func() { l.answer = nil })
		l.turn(3*time.Second - 1)
		l.accepted("from memory", "token")
		l.turn(1)
		l.refused("revoked", "token")
		if l.count() != 2 {
			t.Errorf("asked %d times, want 2", l.count())
		}
	})
	t.Run("never beyond the end of the token", func(t *testing.T) {
		t.Parallel()
		l := open(t, with(func(o *introspect.Options) { o.Cache = "1h" }))
		l.says("token", active(map[string]any{"exp": start.Unix() + 10}))
		l.accepted("first", "token")
		l.turn(10 * time.Second)
		l.refused("expired, whatever the server says", "token")
	})
	t.Run("a token that is not active is asked about each time", func(t *testing.T) {
		t.Parallel()
		l := open(t, with(func(o *introspect.Options) { o.Cache = "1h" }))
		l.refused("unknown", "token")
		l.says("token", active())
		l.accepted("issued since", "token")
	})
	t.Run("what one caller changes is not what the next one gets", func(t *testing.T) {
		t.Parallel()
		l := open(t, with(func(o *introspect.Options) { o.Cache = "1h" }))
		l.says("token", active())
		l.look("token").Active = false
		l.accepted("again", "token")
	})
	t.Run("many at once ask once", func(t *testing.T) {
		t.Parallel()
		l := open(t, with(func(o *introspect.Options) { o.Cache = "1h" }))
		l.says("token", active())
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { l.accepted("at once", "token") })
		}
		if wg.Wait(); l.count() != 1 {
			t.Errorf("asked %d times, want once", l.count())
		}
	})
}

// TestRevokedWhileAsked: a request that comes after a revocation is not answered by a question from before.
func TestRevokedWhileAsked(t *testing.T) {
	t.Parallel()
	t.Run("attack 383: a token that is revoked meanwhile", func(t *testing.T) {
		t.Parallel()
		l := open(t)
		arrived, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		l.change(func() {
			l.answer = func(w http.ResponseWriter, _ *http.Request) {
				first := false
				once.Do(func() { first = true })
				if !first {
					write(w, map[string]any{"active": false}) // revoked
					return
				}
				close(arrived)
				<-release
				write(w, active())
			}
		})
		var wg sync.WaitGroup
		wg.Go(func() { l.accepted("before", "token") })
		<-arrived
		for range 10 {
			wg.Go(func() { l.refused("after", "token") })
		}
		wg.Go(func() { close(release) })
		wg.Wait()
		l.refused("later", "token")
	})
}

// TestUsageLimit: the server counts each question as a use, so answers are neither shared nor kept, and looking again
// does not count.
func TestUsageLimit(t *testing.T) {
	t.Parallel()
	l := open(t, with(func(o *introspect.Options) { o.Cache = "1h" }))
	var mu sync.Mutex
	left := 20
	l.change(func() {
		l.answer = func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if again := r.PostForm.Get("recheck") == "true"; again || left > 0 {
				if !again {
					left--
				}
				write(w, active(map[string]any{"usage_limit": 20, "usage_count": 20 - left}))
				return
			}
			write(w, map[string]any{"active": false})
		}
	})
	var passed sync.Map
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			if in, err := l.Introspect(t.Context(), "token"); err != nil {
				t.Error(err)
			} else if in.Active {
				passed.Store(i, true)
			}
		})
	}
	wg.Wait()
	n := 0
	passed.Range(func(any, any) bool { n++; return true })
	if n != 20 {
		t.Errorf("%d requests passed with a token for 20", n)
	}
	l.refused("used up", "token")
	if in, err := l.Recheck(t.Context(), "token"); err != nil || !in.Active || in.UsageLimit != 0 {
		t.Errorf("Recheck = %+v, %v, want it active for the request that it let in", in, err)
	}
}
