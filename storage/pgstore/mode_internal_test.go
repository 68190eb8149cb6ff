package pgstore

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestModeOfTLS: a URL that does not say how much TLS there must be never leads to another machine in clear text, or to
// one that does not prove its name.
func TestModeOfTLS(t *testing.T) {
	for name, tc := range map[string]struct {
		url, env      string
		verified, any bool // what is tried: hosts that prove their name; others too
		lacks         bool
		fallsBack     bool
	}{
		"another machine":               {url: "postgres://a:b@db.example.com/c", verified: true, lacks: true},
		"its address":                   {url: "postgres://a:b@192.0.2.7:5432/c", verified: true, lacks: true},
		"a host in the query":           {url: "postgres://a:b@/c?host=db.example.com", verified: true, lacks: true},
		"a name that looks local":       {url: "postgres://a:b@localhost.example.com/c", verified: true, lacks: true},
		"an empty mode":                 {url: "postgres://a:b@db.example.com/c?sslmode=", verified: true, lacks: true},
		"two modes, one of them empty":  {url: "postgres://a:b@db.example.com/c?sslmode=disable&sslmode=", verified: true, lacks: true},
		"the word in the password":      {url: "postgres://a:sslmode=disable@db.example.com/c", verified: true, lacks: true},
		"the word in the name":          {url: "postgres://a:b@db.example.com/c?application_name=sslmode%3Ddisable", verified: true, lacks: true},
		"two machines":                  {url: "postgres://a:b@one.example.com,two.example.com/c", verified: true, lacks: true},
		"this machine and another":      {url: "postgres://a:b@127.0.0.1,two.example.com/c", verified: true, lacks: true},
		"the environment asks for less": {url: "postgres://a:b@db.example.com/c", env: "prefer", verified: true, lacks: true},
		"this machine by name":          {url: "postgres://a:b@localhost/c", any: true},
		"this machine by address":       {url: "postgres://a:b@127.0.0.9/c", any: true},
		"this machine by IPv6":          {url: "postgres://a:b@[::1]:5432/c", any: true},
		"a socket":                      {url: "postgres://a:b@/c?host=/run/postgresql", any: true},
		"no TLS, as the URL says":       {url: "postgres://a:b@db.example.com/c?sslmode=disable", any: true},
		"prefer, as the URL says":       {url: "postgres://a:b@db.example.com/c?sslmode=prefer", any: true, fallsBack: true},
		"allow, as the URL says":        {url: "postgres://a:b@db.example.com/c?sslmode=allow", any: true, fallsBack: true},
		"prefer at this machine":        {url: "postgres://a:b@localhost/c?sslmode=prefer", any: true},
		"require":                       {url: "postgres://a:b@db.example.com/c?sslmode=require", any: true},
		"verify-full":                   {url: "postgres://a:b@db.example.com/c?sslmode=verify-full", verified: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PGSSLMODE", tc.env)
			config, err := parseURL(tc.url)
			if err != nil {
				t.Fatal(err)
			}
			all := append([]*pgconn.FallbackConfig{{Host: config.Host, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
			proves := func(f *pgconn.FallbackConfig) bool {
				c := f.TLSConfig
				return c != nil && !c.InsecureSkipVerify && c.VerifyPeerCertificate == nil && c.ServerName == f.Host
			}
			others := slices.ContainsFunc(all, func(f *pgconn.FallbackConfig) bool { return !proves(f) })
			if verified := slices.ContainsFunc(all, proves); verified != tc.verified || others != tc.any {
				t.Errorf("hosts that prove their name %t, others %t, want %t, %t", verified, others, tc.verified, tc.any)
			}
			if lacks := (Options{URL: tc.url}).LacksMode(); lacks != tc.lacks {
				t.Errorf("LacksMode = %t, want %t", lacks, tc.lacks)
			}
			if falls := (Options{URL: tc.url}).FallsBack(); falls != tc.fallsBack {
				t.Errorf("FallsBack = %t, want %t", falls, tc.fallsBack)
			}
			if lacks := (Options{URL: "postgres://a:b@localhost/c", DirectURL: tc.url}).LacksMode(); lacks != tc.lacks {
				t.Errorf("LacksMode of direct_url = %t, want %t", lacks, tc.lacks)
			}
		})
	}
	t.Setenv("PGSSLMODE", "disable")
	if _, err := parseURL("postgres://a:secret@db.example.com/c"); err == nil || !strings.Contains(err.Error(), "sslmode=disable") {
		t.Errorf("parseURL with PGSSLMODE=disable = %v, want that the URL says it", err)
	}
	if _, err := parseURL("host=db.example.com user=a password=b"); err == nil {
		t.Error("parseURL of a list of names and values = nil, want the form of a URL")
	}
}
