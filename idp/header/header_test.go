package header_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/header"
)

// provider trusts 10.0.0.0/8 and fd00::/8.
func provider(t *testing.T, change ...func(*header.Config)) *header.Provider {
	t.Helper()
	cfg := header.Config{
		Trust: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}, User: "X-Remote-User",
		LevelHeader: "X-Remote-Level", Attributes: []header.Attribute{{"X-Remote-Email", "email"}, {"X-Remote-Branch", "branch"}},
		Parameters: []string{"desk"},
	}
	for _, f := range change {
		f(&cfg)
	}
	p, err := header.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func request(peer string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = peer
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	return r
}

const peer = "10.1.2.3:4711"

func TestRead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 257)
	for _, tc := range []struct {
		name    string
		headers []string
		want    *idp.Identity // nil: rejected
	}{
		{"user alone", []string{"X-Remote-User", "ann"}, &idp.Identity{Subject: "ann", Level: 1}},
		{"spaces around", []string{"X-Remote-User", " ann "}, &idp.Identity{Subject: "ann", Level: 1}},
		{"level", []string{"X-Remote-User", "ann", "X-Remote-Level", "3"}, &idp.Identity{Subject: "ann", Level: 3}},
		{"level above", []string{"X-Remote-User", "ann", "X-Remote-Level", "99"}, &idp.Identity{Subject: "ann", Level: 4}},
		{"level below", []string{"X-Remote-User", "ann", "X-Remote-Level", "-1"}, &idp.Identity{Subject: "ann", Level: 1}},
		{"level empty", []string{"X-Remote-User", "ann", "X-Remote-Level", ""}, &idp.Identity{Subject: "ann", Level: 1}},
		{"level not a number", []string{"X-Remote-User", "ann", "X-Remote-Level", "high"}, nil},
		{"level twice", []string{"X-Remote-User", "ann", "X-Remote-Level", "1", "X-Remote-Level", "4"}, nil},
		{
			"attributes",
			[]string{
				"X-Remote-User", "ann", "X-Remote-Email", "ann@example.com", "X-Remote-Branch", "north", "X-Remote-Branch",
				"south", "X-Other", "x",
			},
			&idp.Identity{Subject: "ann", Level: 1, Details: map[string][]string{"email": {"ann@example.com"}, "branch": {"north", "south"}}},
		},
		{
			"attributes that are not text",
			[]string{"X-Remote-User", "ann", "X-Remote-Email", "a\x7f", "X-Remote-Branch", strings.Repeat("x", 1025)},
			&idp.Identity{Subject: "ann", Level: 1},
		},
		{"user twice", []string{"X-Remote-User", "ann", "X-Remote-User", "root"}, nil},
		{"user too long", []string{"X-Remote-User", long}, nil},
		{"user with control characters", []string{"X-Remote-User", "a\x00b"}, nil},
		{"user not UTF-8", []string{"X-Remote-User", "a\xff"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := provider(t).Read(request(peer, tc.headers...))
			if tc.want == nil {
				if rejection := new(idp.Rejection); !errors.As(err, &rejection) {
					t.Fatalf("Read(%q) = %+v, %v, want a rejection", tc.headers, got, err)
				}
				return
			}
			if tc.want.Details == nil {
				tc.want.Details = map[string][]string{}
			}
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("Read(%q) error = %v, (-want +got):\n%s", tc.headers, err, diff)
			}
		})
	}
}

func TestReadNobody(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, peer string
		headers    []string
	}{
		{"no header", peer, nil},
		{"empty header", peer, []string{"X-Remote-User", " "}},
		{"another spelling", peer, []string{"X_remote_user", "ann"}},
		{"stranger", "203.0.113.7:4711", []string{"X-Remote-User", "ann"}},
		{
			"stranger who names a proxy", "203.0.113.7:4711",
			[]string{"X-Remote-User", "ann", "X-Forwarded-For", "10.1.2.3", "X-Real-Ip", "10.1.2.3", "Forwarded", "for=10.1.2.3"},
		},
		{"stranger in IPv6", "[2001:db8::1]:4711", []string{"X-Remote-User", "ann"}},
		{"no address", "@", []string{"X-Remote-User", "ann"}},
		{"no peer", "", []string{"X-Remote-User", "ann"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got, err := provider(t).Read(request(tc.peer, tc.headers...)); !errors.Is(err, idp.ErrNoIdentity) {
				t.Errorf("Read of %s with %q = %+v, %v, want ErrNoIdentity", tc.peer, tc.headers, got, err)
			}
		})
	}
}

func TestTrustedPeers(t *testing.T) {
	t.Parallel()
	mapped := provider(t, func(c *header.Config) { c.Trust = []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")} })
	for at, p := range map[string]*header.Provider{
		peer: provider(t), "[::ffff:10.1.2.3]:4711": provider(t), "[fd00::1%eth0]:4711": provider(t), "10.9.9.9:1": mapped,
		"[::ffff:10.9.9.9]:1": mapped,
	} {
		if got, err := p.Read(request(at, "X-Remote-User", "ann")); err != nil || got.Subject != "ann" {
			t.Errorf("Read of %s = %+v, %v, want ann", at, got, err)
		}
	}
}

func TestFixedLevel(t *testing.T) {
	t.Parallel()
	p := provider(t, func(c *header.Config) { c.Level = 2 })
	for level, want := range map[string]int{"": 2, "3": 3, "1": 1} {
		if got, err := p.Read(request(peer, "X-Remote-User", "ann", "X-Remote-Level", level)); err != nil || got.Level != want {
			t.Errorf("Read of level %q = %+v, %v, want %d", level, got, err, want)
		}
	}
}

func TestCleanse(t *testing.T) {
	t.Parallel()
	headers := []string{
		"X-Remote-User", "ann", "x-remote-user", "b", "X_Remote_User", "c", "X.Remote.User", "d", "X!Remote~User", "f",
		"X-Remote-Level", "4",
		"X-Remote-Email", "e", "Accept", "text/html",
	}
	for at, want := range map[string][]string{
		"203.0.113.7:4711": {"Accept"},
		peer:               {"Accept", "X-Remote-Email", "X-Remote-Level", "X-Remote-User", "x-remote-user"},
	} {
		r := request(at, headers...)
		provider(t).Cleanse(r)
		var got []string
		for name := range r.Header {
			got = append(got, name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("Cleanse of %s leaves %q, want %q", at, got, want)
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	trust := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for name, tc := range map[string]struct {
		cfg  header.Config
		want string
	}{
		"no trust":       {header.Config{User: "X-Remote-User"}, "trust is missing"},
		"no user":        {header.Config{Trust: trust}, "user is missing"},
		"level":          {header.Config{Trust: trust, User: "X-Remote-User", Level: 5}, "level 5"},
		"no header name": {header.Config{Trust: trust, User: "X Remote"}, "not the name of a header"},
		"user is level":  {header.Config{Trust: trust, User: "X-Remote", LevelHeader: "x-remote"}, "both user and level"},
		"detail twice": {
			header.Config{Trust: trust, User: "X-U", Attributes: []header.Attribute{{"X-A", "a"}, {"X-B", "a"}}},
			"a is set twice",
		},
		"also parameter": {
			header.Config{Trust: trust, User: "X-U", Attributes: []header.Attribute{{"X-A", "a"}}, Parameters: []string{"a"}},
			"a is set twice",
		},
	} {
		if _, err := header.New(tc.cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("New(%s) = %v, want %q in it", name, err, tc.want)
		}
	}
}
