package routetree_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/routetree"
)

const (
	protect = `{"handler":"protect","places":{"protect":"Caddyfile:7"}}`
	proxy   = `{"handler":"reverse_proxy"}`
	issuer  = `{"handler":"gatehouse"}`
)

func host(h, handlers string) string {
	return `{"match":[{"host":["` + h + `"]}],"handle":[` + handlers + `],"terminal":true}`
}

func subroute(routes ...string) string {
	return `{"handler":"subroute","routes":[` + strings.Join(routes, ",") + `]}`
}

func route(handlers string) string { return `{"handle":[` + handlers + `]}` }

// TestCheck: an issuer that is not served, and a protect that no request reaches, are told from routes that are good.
func TestCheck(t *testing.T) {
	t.Parallel()
	const served = "auth.example.com"
	serves := host(served, subroute(route(issuer)))
	for name, tt := range map[string]struct {
		routes []string
		want   string // of all findings; empty: none
		whole  int
	}{
		"good":                  {[]string{serves, host("a.example.com", subroute(route(protect), route(proxy)))}, "", 1},
		"nothing at all":        {nil, "no site serves https://auth.example.com", 0},
		"another host":          {[]string{host("www.example.com", subroute(route(issuer)))}, "stands in a site of www.example.com", 0},
		"a wildcard":            {[]string{host("*.example.com", subroute(route(issuer)))}, "", 0},
		"a wildcard below":      {[]string{host("*.auth.example.com", subroute(route(issuer)))}, "no site serves", 0},
		"any host":              {[]string{route(issuer)}, "", 0},
		"in a module of others": {[]string{route(`{"handler":"other","inside":[ {"handler": "gatehouse"} ]}`)}, "", 0},
		"behind a proxy": {
			[]string{serves, host("a.example.com", subroute(route(subroute(route(proxy), route(protect)))))},
			"guards nothing: reverse_proxy", 0,
		},
		"in one route": {[]string{serves, host("a.example.com", proxy+","+protect)}, "guards nothing: reverse_proxy", 0},
		"behind files": {
			[]string{serves, host("a.example.com", subroute(route(`{"handler":"file_server"}`), route(protect)))},
			"guards nothing: file_server", 0,
		},
		"behind files that pass": {[]string{
			serves,
			host("a.example.com", subroute(route(`{"handler":"file_server","pass_thru":true}`), route(protect))),
		}, "", 1},
		"behind a matched proxy": {[]string{
			serves,
			host("a.example.com", subroute(`{"match":[{"path":["/api/*"]}],"handle":[`+proxy+`]}`, route(protect))),
		}, "", 1},
		"for some paths": {[]string{
			serves,
			host("a.example.com", subroute(`{"match":[{"path":["/api/*"]}],"handle":[`+protect+`]}`, route(proxy))),
		}, "", 0},
		"behind headers": {[]string{
			serves,
			host("a.example.com", subroute(route(`{"handler":"headers"}`), route(protect), route(proxy))),
		}, "", 1},
		"another site's own end": {[]string{serves, host("b.example.com", proxy), host("a.example.com", protect+","+proxy)}, "", 1},
		"behind a whole site":    {[]string{serves, route(subroute(route(proxy))), host("a.example.com", protect)}, "guards nothing", 0},
		"before the issuer": {[]string{host(served,
			subroute(route(protect), `{"match":[{"path":["/mcp"]}],"handle":[`+proxy+`]}`, route(issuer)))}, "stands before gatehouse", 1},
		"beside the issuer": {[]string{host(served,
			subroute(`{"match":[{"path":["/mcp"]}],"handle":[`+subroute(route(protect), route(proxy))+`]}`,
				route(subroute(route(issuer)))))}, "", 0},
		"after a terminal nobody": {
			[]string{serves, `{"handle":[{"handler":"vars"}],"terminal":true}`, host("a.example.com", protect)},
			"guards nothing: the route", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var app caddyhttp.App
			if err := json.Unmarshal([]byte(`{"servers":{"s":{"listen":[":443"],"routes":[`+strings.Join(tt.routes, ",")+`]}}}`), &app); err != nil {
				t.Fatal(err)
			}
			u := &url.URL{Scheme: "https", Host: served}
			tree := routetree.Read(&app)
			var got []string
			for _, f := range tree.Check(u, "Caddyfile:3", false) {
				got = append(got, f.String())
			}
			switch all := strings.Join(got, "\n"); {
			case tt.want == "" && all != "", !strings.Contains(all, tt.want), all != "" && !strings.Contains(all, ", at Caddyfile:"):
				t.Errorf("Check = %s, want %q and a place", all, tt.want)
			}
			if n := len(tree.Whole()); n != tt.whole {
				t.Errorf("%d protects see their whole site, want %d", n, tt.whole)
			}
		})
	}
}
