package routetree_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/routetree"
)

// TestReloads: each server with one of our handlers that listens at TCP needs the listener wrapper in front of tls and
// of all others.
func TestReloads(t *testing.T) {
	t.Parallel()
	const (
		whole = "put `servers { listener_wrappers { gatehouse tls } }` into the global options"
		first = "write `gatehouse` first in its `listener_wrappers`, and `tls` behind it"
	)
	for name, tt := range map[string]struct {
		listen, wrappers, handler string
		want                      string // of the warning; empty: none
	}{
		"without wrappers":    {`":443"`, ``, issuer, whole},
		"a site":              {`":443"`, ``, subroute(route(protect)), whole},
		"inside a module":     {`":443"`, ``, `{"handler":"other","inside":[{"handler":"gatehouse"}]}`, whole},
		"one host":            {`"tcp4/127.0.0.1:8443"`, ``, protect, whole},
		"a socket and a port": {`"unix//run/caddy.sock",":443"`, ``, protect, whole},
		"with the wrapper":    {`":443"`, `{"wrapper":"gatehouse"},{"wrapper":"tls"}`, issuer, ""},
		"in front of others": {
			`":443"`,
			`{"wrapper":"gatehouse"},{"wrapper":"proxy_protocol"},{"wrapper":"http_redirect"},{"wrapper":"tls"}`, issuer, "",
		},
		"behind another": {
			`":443"`, `{"wrapper":"proxy_protocol"},{"wrapper":"gatehouse","at":"Caddyfile:7"},{"wrapper":"tls"}`,
			issuer, first,
		},
		"others alone": {`":443"`, `{"wrapper":"proxy_protocol"},{"wrapper":"tls"}`, issuer, first},
		"after tls": {
			`":443"`, `{"wrapper":"proxy_protocol"},{"wrapper":"tls"},{"wrapper":"gatehouse","at":"Caddyfile:7"}`,
			issuer, first,
		},
		"without tls":              {`":443"`, `{"wrapper":"gatehouse"}`, issuer, first},
		"a server of others":       {`":443"`, ``, proxy, ""},
		"a unix socket":            {`"unix//run/caddy.sock"`, ``, issuer, ""},
		"a socket of the manager":  {`"fd/3"`, ``, issuer, ""},
		"a network of a plugin":    {`"tailscale/wiki:443"`, ``, issuer, ""},
		"a port of an environment": {`":{env.NO_SUCH_PORT}443"`, ``, issuer, whole},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var app caddyhttp.App
			raw := `{"servers":{"s":{"listen":[` + tt.listen + `],"listener_wrappers":[` + tt.wrappers + `],"routes":[` + route(tt.handler) + `]}}}`
			if err := json.Unmarshal([]byte(raw), &app); err != nil {
				t.Fatal(err)
			}
			found := routetree.Reloads(&app)
			switch {
			case tt.want == "" && len(found) > 0:
				t.Errorf("Reloads() = %v, want none", found)
			case tt.want == "":
			case len(found) != 1 || !strings.Contains(found[0].Fix, tt.want) ||
				!strings.Contains(found[0].Reason, strings.ReplaceAll(strings.ReplaceAll(tt.listen, `"`, ""), ",", ", ")):
				t.Errorf("Reloads() = %v, want one warning with the address and %q", found, tt.want)
			case strings.Contains(tt.wrappers, "Caddyfile:7") && found[0].Place != "Caddyfile:7":
				t.Errorf("Reloads() has the place %q, want that of the wrapper", found[0].Place)
			}
		})
	}
}
