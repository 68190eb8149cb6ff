package settings_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// owned is a world with two organisations, each with an API client. The one of acme is called acme-api.
func owned(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	gate := &jsonapi.Gate{
		Log: zap.NewNop(), Issuer: "https://auth.example.com", Secure: func(*http.Request) bool { return true },
		Authorize: func(r *http.Request, api string) (string, error) {
			id, _, ok := r.BasicAuth()
			if !ok || api == "policies" {
				return "", authn.ErrNoCredentials
			}
			if id == "acme-api" {
				audit.Belongs(r, "acme")
			}
			return id, nil
		},
	}
	reserved := func(_ context.Context, id string) (bool, error) { return id == "payroll" || id == "intranet", nil }
	ring, err := secret.NewKeyring(make([]byte, secret.KeySize))
	if err == nil {
		w.service, err = settings.New(t.Context(), settings.Config{Fixed: []settings.LoginMethod{fixed}, Verify: verify, Reserved: reserved},
			settings.Deps{
				Store: w.store, Keyring: ring, Log: zap.NewNop(), Events: &audit.Recorder{Random: rand.Reader, Now: time.Now}, Origin: audit.PeerOrigin,
			})
	}
	if err != nil {
		t.Fatal(err)
	}
	w.handler = settings.NewAPI(w.service, gate, nil)
	w.must(204, http.MethodPost, "/api/v2/config", `{
		"organisations":[{"id":"acme","name":"Acme","username_for_basic_auth":"acme-api","service_providers":{"one":{"name":"One"}}},
			{"id":"other","name":"Umbra","username_for_basic_auth":"umbra-api","service_providers":{"theirs":{"name":"Theirs"}}}],
		"custom_messages":{"default":{"old":"x"},"locales":{"nl_NL":{"greeting":"hoi"}}},
		"features":{"action_token":{"whitelisted_urls":[{"url":"https://app.example.com/"}]}},
		"redirects":{"url_whitelist":[{"url":"https://www.example.com/welcome"}]}
	}`)
	return w
}

// asAcme calls as the API client of acme.
func (w *world) asAcme(method, path, body string, headers ...string) writeView {
	w.Helper()
	r, _ := http.NewRequest(method, "/", http.NoBody) //nolint:noctx // only its header is used
	r.SetBasicAuth("acme-api", "secret")
	return w.call(method, path, body, append(headers, "Authorization", r.Header.Get("Authorization"))...)
}

const own = `{"id":"acme","name":"Acme 2","username_for_basic_auth":"acme-api","service_providers":{"one":{"name":"One"}}}`

func TestOrganisationAPIClient(t *testing.T) {
	t.Parallel()
	w := owned(t)
	const organisations = "/api/v2/config/organisations"
	a := w.asAcme(http.MethodGet, organisations, "")
	var list []settings.Organisation
	if err := json.Unmarshal([]byte(a.body), &list); err != nil || a.status != 200 || len(list) != 1 || list[0].ID != "acme" {
		t.Fatalf("the list: %d %s", a.status, a.body)
	}
	if a := w.asAcme(http.MethodGet, "/api/v2/config", ""); a.status != 200 || strings.Contains(a.body, "features") ||
		!strings.HasPrefix(a.body, `{"organisations":[{"id":"acme"`) {
		t.Errorf("the configuration: %d %s", a.status, a.body)
	}
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", organisations + "/acme/service-providers", "", 200},
		{"GET", organisations + "/acme/service-providers/one", "", 200},
		{"POST", organisations + "/acme/service-providers/one", `{"name":"The one"}`, 204},
		{"POST", organisations + "/acme/service-providers", `[{"id":"one","name":"One"},{"id":"two"}]`, 200},
		{"POST", "/api/v2/config", `{"organisations":[` + own + `]}`, 204},
	} {
		if a := w.asAcme(c.method, c.path, c.body); a.status != c.want || strings.Contains(a.body, "heirs") {
			t.Errorf("%s %s = %d %s, want %d", c.method, c.path, a.status, a.body, c.want)
		}
	}
	u := w.units(w.service)
	if len(u.Organisations) != 2 || u.Organisations[0].Name != "Acme 2" || u.Organisations[1].Name != "Umbra" ||
		u.Organisations[1].ServiceProviders["theirs"].Name != "Theirs" {
		t.Errorf("the organisations are now %+v", u.Organisations)
	}
	n := 0
	for _, e := range w.events() {
		if e.Actor == "acme-api" {
			n++
		}
		if want := map[string]string{"acme-api": "acme"}[e.Actor]; e.Organisation != want || e.Info().OrganisationID != want {
			t.Errorf("an event of %s names the organisation %q, want %q", e.Actor, e.Organisation, want)
		}
	}
	if n != 3 {
		t.Errorf("%d events of the API client, want 3", n)
	}
	// What someone else has listed for it, it keeps and changes.
	w.must(204, http.MethodPost, "/api/v2/config",
		`{"organisations":[`+strings.Replace(own, `"one":`, `"intranet":{},"one":`, 1)+
			`,{"id":"other","name":"Umbra","username_for_basic_auth":"umbra-api","service_providers":{"theirs":{"name":"Theirs"}}}]}`)
	if a := w.asAcme(http.MethodPost, organisations+"/acme/service-providers/intranet", `{"name":"The intranet"}`); a.status != 204 {
		t.Errorf("an application of the Caddyfile that is its own: %d %s, want 204", a.status, a.body)
	}
	tag := w.asAcme(http.MethodGet, "/api/v2/config", "").header.Get("ETag")
	w.must(204, http.MethodPost, "/api/v2/config/features", `{"sign_up_enabled":true}`)
	if a := w.asAcme(http.MethodPost, "/api/v2/config", `{"organisations":[`+strings.Replace(own, "Acme 2", "Acme 3", 1)+`]}`,
		"If-Match", tag); a.status != 204 {
		t.Errorf("after a change elsewhere, with If-Match: %d %s", a.status, a.body)
	}
	if a := w.asAcme(http.MethodPost, "/api/v2/config", `{"organisations":[`+own+`]}`, "If-Match", tag); a.status != 412 {
		t.Errorf("after a change of its own: %d, want 412", a.status)
	}
	w.must(204, http.MethodPost, "/api/v2/config", `{"organisations":[`+strings.Replace(own, "acme-api", "", 1)+`]}`)
	if a := w.asAcme(http.MethodGet, "/api/v2/config/features", ""); a.status != 403 {
		t.Errorf("an API client whose organisation names it no more: %d, want 403", a.status)
	}
}

// TestOrganisationAPIClientIsAlone: two organisations never name one API client.
func TestOrganisationAPIClientIsAlone(t *testing.T) {
	t.Parallel()
	w := owned(t)
	named := func(acme, other string) string {
		return `{"organisations":[{"id":"acme","username_for_basic_auth":"` + acme +
			`"},{"id":"other","username_for_basic_auth":"` + other + `"}]}`
	}
	a := w.must(409, http.MethodPost, "/api/v2/config", named("umbra-api", "umbra-api"))
	if !strings.Contains(a.body, `"path":"organisations[1].username_for_basic_auth"`) || !strings.Contains(a.body, `"error_message"`) {
		t.Errorf("409 with %s", a.body)
	}
	w.must(204, http.MethodPost, "/api/v2/config", named("umbra-api", "acme-api"))
	w.must(204, http.MethodPost, "/api/v2/config", named("", ""))
	w.must(204, http.MethodPost, "/api/v2/config", `{"organisations":[{"id":"other","username_for_basic_auth":"acme-api"}]}`)
	w.must(204, http.MethodPost, "/api/v2/config",
		`{"organisations":[{"id":"third","username_for_basic_auth":"acme-api"}]}`) // the other is gone
	w.must(204, http.MethodPost, "/api/v2/config", named("", ""))
	t.Run("attack 865: at once", func(t *testing.T) {
		var all sync.WaitGroup
		var taken atomic.Int32
		for i := range 2 {
			all.Go(func() {
				_, err := w.service.Edit(settings.WithRights(t.Context(), settings.Owner), audit.Actor{ID: "ops"}, func(u *settings.Units) error {
					u.Organisations[i].UsernameForBasicAuth = "acme-api"
					return nil
				})
				if err == nil {
					taken.Add(1)
				}
			})
		}
		all.Wait()
		if n := taken.Load(); n != 1 {
			t.Errorf("%d organisations have the name, want 1", n)
		}
	})
}

func TestAttacksOnOrganisations(t *testing.T) {
	t.Parallel()
	w := owned(t)
	theirs := w.must(200, http.MethodGet, "/api/v2/config/organisations/other/service-providers", "").header.Get("ETag")
	whole := w.must(200, http.MethodGet, "/api/v2/config", "").header.Get("ETag")
	t.Run("attack 861: every path", func(t *testing.T) {
		open := 0
		for op := range documented {
			method, path, _ := strings.Cut(op, " ")
			if strings.HasPrefix(path, "/api/v2/config/policies") {
				continue // another right
			}
			path = strings.NewReplacer("{organisation-id}", "other", "{serviceProviderId}", "theirs").Replace(path)
			var a writeView
			w.unchanged(op, func() writeView { a = w.asAcme(method, w.fill(path), good[op]); return a }, 200, 403, 404)
			if strings.Contains(a.body, "Umbra") || strings.Contains(a.body, "heirs") || strings.Contains(a.body, "umbra") {
				t.Errorf("%s tells of another organisation: %s", op, a.body)
			}
			switch op {
			case "GET /api/v2/config", "GET /api/v2/config/organisations":
				open++
			default:
				if a.status == 200 {
					t.Errorf("%s = 200 %s", op, a.body)
				}
			}
		}
		if open != 2 {
			t.Errorf("%d operations are open, want 2", open)
		}
		for _, path := range []string{"/v2/config/certificates", "/v2/config/certificates/one"} {
			if a := w.asAcme(http.MethodGet, path, ""); a.status != 403 {
				t.Errorf("%s = %d, want 403", path, a.status)
			}
		}
	})
	t.Run("attack 880: it rotates key pairs, which belong to no organisation", func(t *testing.T) {
		before := w.must(200, http.MethodGet, "/v2/config/certificates/own/rotation", "").body
		for _, path := range []string{
			"GET rotations", "GET own/rotation", "POST own/rotation/announce", "POST own/rotation/switch",
			"POST own/rotation/retire", "POST own/renew",
		} {
			method, path, _ := strings.Cut(path, " ")
			if a := w.asAcme(method, "/v2/config/certificates/"+path, ""); a.status != 403 {
				t.Errorf("%s %s = %d %s, want 403", method, path, a.status, a.body)
			}
		}
		if after := w.must(200, http.MethodGet, "/v2/config/certificates/own/rotation", "").body; after != before {
			t.Errorf("the key pair is now %s", after)
		}
	})
	t.Run("attack 861: an entity tag of another one", func(t *testing.T) {
		for _, tag := range []string{theirs, whole, `"x"`, "*"} {
			one := w.asAcme(http.MethodPost, "/api/v2/config/organisations/other/service-providers", `[]`, "If-Match", tag)
			none := w.asAcme(http.MethodPost, "/api/v2/config/organisations/nobody/service-providers", `[]`, "If-Match", tag)
			if one.status != none.status || one.body != none.body || one.status < 400 {
				t.Errorf("with %s: %d %s, want as for none: %d %s", tag, one.status, one.body, none.status, none.body)
			}
		}
	})
	const units = "/api/v2/config"
	for name, c := range map[string]struct{ path, body string }{
		"attack 862: another one along":   {units, `{"organisations":[` + own + `,{"id":"other","name":"Mine"}]}`},
		"attack 862: another one":         {units, `{"organisations":[{"id":"other","name":"Mine","username_for_basic_auth":"acme-api"}]}`},
		"attack 862: a new one":           {units, `{"organisations":[` + own + `,{"id":"new"}]}`},
		"attack 862: none":                {units, `{"organisations":[]}`},
		"attack 862: its own twice":       {units, `{"organisations":[` + own + `,` + own + `]}`},
		"attack 862: a switch along":      {units, `{"organisations":[` + own + `],"features":{"sign_up_enabled":true}}`},
		"attack 862: a switch as it is":   {units, `{"features":{"login_enabled":true}}`},
		"attack 862: a policy":            {units, `{"policies":{"p":{}}}`},
		"attack 862: key pairs":           {units, `{"organisations":[` + own + `],"key_pairs":[]}`},
		"attack 862: service providers":   {"/api/v2/config/organisations/other/service-providers", `[]`},
		"attack 862: a service provider":  {"/api/v2/config/organisations/other/service-providers/theirs", `{"name":"Mine"}`},
		"attack 863: no name":             {units, `{"organisations":[{"id":"acme","name":"Acme"}]}`},
		"attack 863: another name":        {units, `{"organisations":[` + strings.Replace(own, "acme-api", "free", 1) + `]}`},
		"attack 863: the name of another": {units, `{"organisations":[` + strings.Replace(own, "acme-api", "umbra-api", 1) + `]}`},
		"attack 863: another id":          {units, `{"organisations":[` + strings.Replace(own, `"acme"`, `"new"`, 1) + `]}`},
		"attack 864: a foreign application": {
			units,
			`{"organisations":[` + strings.Replace(own, `"one":{"name":"One"}`, `"theirs":{}`, 1) + `]}`,
		},
		"attack 864: a foreign application.": {
			"/api/v2/config/organisations/acme/service-providers",
			`[{"id":"one"},{"id":"theirs","required_authentication_level":4}]`,
		},
		"attack 870: one of the Caddyfile": {
			units,
			`{"organisations":[` + strings.Replace(own, `"one":{"name":"One"}`, `"payroll":{"use_trusted_device":"true"}`, 1) + `]}`,
		},
		"attack 870: one of the Caddyfile.": {
			"/api/v2/config/organisations/acme/service-providers",
			`[{"id":"one"},{"id":"payroll","type":"OIDC"}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := []int{403, 404}
			if strings.HasPrefix(name, "attack 864") || strings.HasPrefix(name, "attack 870") {
				want = []int{409}
			}
			w := &world{TB: t, store: w.store, service: w.service, handler: w.handler}
			w.unchanged(name, func() writeView { return w.asAcme(http.MethodPost, c.path, c.body) }, want...)
		})
	}
}

// leveled is an application that asks for levels.
func leveled(authentication, assurance int) string {
	return fmt.Sprintf(`{"name":"One","required_authentication_level":%d,"required_identity_assurance_level":%d}`, authentication, assurance)
}

// TestOrganisationKeepsLevels: an API client of an organisation raises the levels that its applications ask for, and
// lowers none, on whatever path.
func TestOrganisationKeepsLevels(t *testing.T) {
	t.Parallel()
	const (
		all  = "/api/v2/config"
		list = "/api/v2/config/organisations/acme/service-providers"
		one  = list + "/one"
	)
	of := func(applications string) string {
		return `{"organisations":[{"id":"acme","name":"Acme","username_for_basic_auth":"acme-api","service_providers":` + applications + `}]}`
	}
	for name, tt := range map[string]struct {
		path, body string
		want       int
	}{
		"as they are":            {all, of(`{"one":` + leveled(3, 2) + `}`), 204},
		"raised":                 {all, of(`{"one":` + leveled(4, 3) + `}`), 204},
		"raised on its own path": {one, `{"required_authentication_level":4}`, 204},
		"another one":            {all, of(`{"one":` + leveled(3, 2) + `,"two":{}}`), 204},
		"attack 7696: a trusted browser counts": {
			all,
			of(`{"one":` + strings.Replace(leveled(3, 2), "{", `{"use_trusted_device":"true",`, 1) + `}`), 403,
		},
		"attack 7696: at another one":              {all, of(`{"one":` + leveled(3, 2) + `,"two":{"use_trusted_device":"TRUE"}}`), 403},
		"attack 7696: on its own path":             {one, `{"use_trusted_device":"true"}`, 403},
		"attack 7696: in the list":                 {list, `[{"id":"one","use_trusted_device":"true"}]`, 403},
		"attack 7230: a lower level":               {all, of(`{"one":` + leveled(2, 2) + `}`), 403},
		"attack 7230: any level":                   {all, of(`{"one":` + leveled(0, 2) + `}`), 403},
		"attack 7230: a lower assurance":           {all, of(`{"one":` + leveled(3, 1) + `}`), 403},
		"attack 7230: one higher, the other lower": {all, of(`{"one":` + leveled(4, 1) + `}`), 403},
		"attack 7230: without them":                {all, of(`{"one":{"name":"One"}}`), 403},
		"attack 7230: without the application":     {all, of(`{}`), 403},
		"attack 7230: by another id":               {all, of(`{"two":` + leveled(3, 2) + `}`), 403},
		"attack 7230: on its own path":             {one, `{"required_authentication_level":1}`, 403},
		"attack 7230: assurance on its own path":   {one, `{"required_identity_assurance_level":0}`, 403},
		"attack 7230: in the list":                 {list, `[{"id":"one","required_authentication_level":1}]`, 403},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := owned(t)
			w.must(204, http.MethodPost, one, leveled(3, 2))
			if a := w.asAcme(http.MethodPost, tt.path, tt.body); a.status != tt.want {
				t.Errorf("POST %s of %s = %d %s, want %d", tt.path, tt.body, a.status, a.body, tt.want)
			}
		})
	}
}

// TestOrganisationKeepsTheSecondStep: an API client of an organisation does not say that its applications get by
// without the second step that the settings ask for.
func TestOrganisationKeepsTheSecondStep(t *testing.T) {
	t.Parallel()
	for asks, want := range map[string]int{"ON_DEMAND": 403, "WHEN_SET_UP": 403, "ALWAYS": 204} {
		t.Run("attack 7228: "+asks, func(t *testing.T) {
			t.Parallel()
			w := owned(t)
			body := strings.Replace(own, `{"name":"One"}`, `{"name":"One","second_factor":"`+asks+`"}`, 1)
			if a := w.asAcme(http.MethodPost, "/api/v2/config", `{"organisations":[`+body+`]}`); a.status != want {
				t.Errorf("POST of second_factor %s = %d %s, want %d", asks, a.status, a.body, want)
			}
		})
	}
}
