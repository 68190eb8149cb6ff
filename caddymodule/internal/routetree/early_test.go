package routetree_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/routetree"
)

// TestHandlersBeforeProtect: a handler that answers from a store, or that looks at placeholders too early, is found.
func TestHandlersBeforeProtect(t *testing.T) {
	t.Parallel()
	const (
		served = "auth.example.com"
		cache  = `{"handler":"cache"}`
		limit  = `{"handler":"rate_limit","rate_limits":{"one":{"key":"{http.auth.user.id}"}}}`
		store  = "cache stands before it, and answers from its store"
		empty  = "where the placeholders {http.auth.user.*} are still empty"
	)
	for name, tt := range map[string]struct {
		handlers string // of a site, before which that of the issuer stands
		want     string // empty: nothing is found
	}{
		"a cache":              {subroute(route(cache), route(protect), route(proxy)), store},
		"a cache in one route": {cache + "," + protect + "," + proxy, store},
		"a cache around":       {cache + "," + subroute(route(protect), route(proxy)), store},
		"a cache behind":       {subroute(route(protect), route(cache), route(proxy)), "cache stands behind it, and its key does not name the person"},
		"a cache behind, by the token alone": {
			subroute(route(protect), route(`{"handler":"cache","Configuration":{"Key":{"headers":["Authorization"]}}}`), route(proxy)),
			"cache stands behind it",
		},
		"a cache behind, for each person": {
			subroute(route(protect), route(`{"handler":"cache","Configuration":{"Key":{"headers":["Remote-User"]}}}`), route(proxy)), "",
		},
		"a cache beside": {subroute(`{"match":[{"path":["/a"]}],"handle":[`+subroute(route(cache), route(proxy))+`]}`,
			route(protect), route(proxy)), ""},
		"a limit by person": {subroute(route(limit), route(protect), route(proxy)), "rate_limit stands before it, " + empty},
		"a limit by address": {subroute(route(`{"handler":"rate_limit","rate_limits":{"one":{"key":"{http.request.remote.host}"}}}`),
			route(protect), route(proxy)), ""},
		"a limit behind": {subroute(route(protect), route(limit), route(proxy)), ""},
		"a header of the answer": {subroute(route(`{"handler":"headers","response":{"set":{"X-User":["{http.auth.user.id}"]}}}`),
			route(protect)), "header stands before it, " + empty},
		"a header that is deferred": {subroute(route(`{"handler":"headers","response":{"deferred":true,"set":{"X-User":["{http.auth.user.id}"]}}}`), route(protect)), ""},
		"a header of the request": {subroute(route(`{"handler":"headers","request":{"set":{"X-User":["{http.auth.user.id}"]}}}`),
			route(protect)), "header stands before it, " + empty},
		"a map": {subroute(route(`{"handler":"map","source":"{http.auth.user.id}"}`), route(protect)), ""},
		"a log": {subroute(route(`{"handler":"log_append","value":"{http.auth.user.id}"}`), route(protect)), ""},
		"a matcher": {
			subroute(`{"match":[{"vars":{"{http.auth.user.id}":["ada"]}}],"handle":[`+proxy+`]}`, route(protect)),
			"a matcher stands before it, " + empty,
		},
		"a matcher of protect": {
			subroute(`{"match":[{"vars":{"{http.auth.user.id}":["ada"]}}],"handle":[`+protect+`]}`, route(proxy)),
			"a matcher stands before it, " + empty,
		},
		"a matcher behind": {subroute(route(protect), `{"match":[{"vars":{"{http.auth.user.id}":["ada"]}}],"handle":[`+proxy+`]}`), ""},
		"variables": {
			subroute(route(`{"handler":"vars","who":"{http.auth.user.id}"}`), route(protect)),
			"vars stands before it, " + empty,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var app caddyhttp.App
			routes := host(served, subroute(route(issuer))) + "," + host("a.example.com", tt.handlers)
			if err := json.Unmarshal([]byte(`{"servers":{"s":{"listen":[":443"],"routes":[`+routes+`]}}}`), &app); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range routetree.Read(&app).Check(&url.URL{Scheme: "https", Host: served}, "Caddyfile:3", false) {
				got = append(got, f.String())
			}
			if all := strings.Join(got, "\n"); len(got) > 1 || (tt.want == "") != (all == "") || !strings.Contains(all, tt.want) {
				t.Errorf("Check = %q, want %q", all, tt.want)
			}
		})
	}
}

// TestServersReadFromTheRight: a server with one of the handlers does not take the address at the left of
// X-Forwarded-For, which the client has written.
func TestServersReadFromTheRight(t *testing.T) {
	t.Parallel()
	var app caddyhttp.App
	if err := json.Unmarshal([]byte(`{"servers":{
		"site":{"routes":[`+host("a.example.com", subroute(route(protect), route(proxy)))+`]},
		"issuer":{"routes":[`+route(issuer)+`]},
		"invoked":{"routes":[],"named_routes":{"one":`+route(protect)+`}},
		"another":{"routes":[`+route(proxy)+`]}}}`), &app); err != nil {
		t.Fatal(err)
	}
	routetree.ReadFromRight(&app)
	for name, want := range map[string]int{"site": 1, "issuer": 1, "invoked": 1, "another": 0} {
		if got := app.Servers[name].TrustedProxiesStrict; got != want {
			t.Errorf("ReadFromRight: server %s: trusted_proxies_strict = %d, want %d", name, got, want)
		}
	}
}

// TestServersWithoutProxies: a server that trusts no one takes no stranger for a proxy.
func TestServersWithoutProxies(t *testing.T) {
	t.Parallel()
	app := caddyhttp.App{Servers: map[string]*caddyhttp.Server{"one": {}, "none": nil}}
	if routetree.TrustsStrangers(&app) || routetree.HasProxies(app.Servers["one"]) || routetree.HasProxies(nil) {
		t.Error("a server without trusted_proxies has some")
	}
	app.Servers["one"].TrustedProxiesRaw = json.RawMessage(`{"source":"static"}`)
	if !routetree.HasProxies(app.Servers["one"]) {
		t.Error("a server with trusted_proxies has none")
	}
}
