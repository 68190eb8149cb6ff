package settings_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	anyProvider   = `{"id":"mine","name":"Mine","type":"SAML","enabled":true,"removable":true,"auto_email_verification":true,"authentication_level":4,"saml_attributes":{"idp_metadata":"https://mine.example/metadata"}}`
	ownerProvider = `{"id":"mine","name":"Mine","type":"SAML","enabled":true,"removable":true,"administrators_enabled":true,"saml_attributes":{"idp_metadata":"https://mine.example/metadata"}}`
)

// TestSettingsOfSignIn: who may change the settings that decide who a person is. Without rights no one does.
func TestSettingsOfSignIn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body  string
		least settings.Rights
	}{
		"a provider":                        {`{"login_methods":{"login_methods":[` + anyProvider + `]}}`, settings.SignIn},
		"linking by address":                {`{"features":{"automated_external_identity_coupling_enabled":true}}`, settings.SignIn},
		"moving without asking":             {`{"features":{"unauthenticated_migration_enabled":true}}`, settings.SignIn},
		"tokens that sign in":               {`{"features":{"action_token":{"login":{"enabled":true}}}}`, settings.SignIn},
		"tokens that link":                  {`{"features":{"action_token":{"coupling":{"enabled":true}}}}`, settings.SignIn},
		"the level of a PIN":                {`{"step_up":{"authentication_methods":{"pin_authentication_level":4}}}`, settings.SignIn},
		"codes by e-mail as a second step":  {`{"email_notifications":{"step_up_authentication":true}}`, settings.SignIn},
		"a new PIN by e-mail":               {`{"email_notifications":{"pin_reset":true}}`, settings.SignIn},
		"a welcome":                         {`{"email_notifications":{"account_removed":true}}`, settings.Ordinary},
		"no second step":                    {`{"step_up":{"second_factor":"ON_DEMAND"}}`, settings.SignIn},
		"a sign-in page elsewhere":          {`{"ui_extension":{"base_url":"https://mine.example","login_path":"/in","enable_login_redirect":true}}`, settings.SignIn},
		"no second step for an application": {`{"organisations":[{"id":"acme","name":"Acme","service_providers":{"one":{"name":"One","second_factor":"ON_DEMAND"}}}]}`, settings.SignIn},
		"less than always, perhaps":         {`{"organisations":[{"id":"acme","name":"Acme","service_providers":{"one":{"name":"One","second_factor":"WHEN_SET_UP"}}}]}`, settings.SignIn},
		"a trusted browser in its place":    {`{"organisations":[{"id":"acme","name":"Acme","service_providers":{"one":{"name":"One","use_trusted_device":"true"}}}]}`, settings.SignIn},
		"no trusted browser":                {`{"organisations":[{"id":"acme","name":"Acme","service_providers":{"one":{"name":"One","use_trusted_device":"false"}}}]}`, settings.Ordinary},
		"a second step for an application":  {`{"organisations":[{"id":"acme","name":"Acme","service_providers":{"one":{"name":"One","second_factor":"ALWAYS"}}}]}`, settings.Ordinary},
		"an application": {
			`{"organisations":[{"id":"acme","name":"Acme","service_providers":{"one":{"name":"One"}}}]}`,
			settings.Ordinary,
		},
		"a provider for administrators": {`{"login_methods":{"login_methods":[` + ownerProvider + `]}}`, settings.Owner},
		"sign-up":                       {`{"features":{"sign_up_enabled":true}}`, settings.Ordinary},
		"a URL for action tokens": {
			`{"features":{"action_token":{"whitelisted_urls":[{"url":"https://app.example.com/"}]}}}`,
			settings.Ordinary,
		},
		"the length of passwords":        {`{"password_policy":{"min_length":12,"max_length":200,"lower_case_char_required":false,"upper_case_char_required":false,"special_char_required":false,"breached_password_blocked":false}}`, settings.Ordinary},
		"a setting, and one of sign-in":  {`{"features":{"sign_up_enabled":true,"pin_enabled":true}}`, settings.SignIn},
		"what is there, said once again": {`{"features":{"login_enabled":true},"step_up":{"stategy":"USER_PREFERENCE"}}`, settings.Ordinary},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for rights := settings.Ordinary; rights <= settings.Owner; rights++ {
				w := newWorld(t)
				_, err := w.service.Import(settings.WithRights(t.Context(), rights), []byte(c.body), audit.Actor{ID: "someone"})
				if allowed := rights >= c.least; (err == nil) != allowed {
					t.Errorf("Import with rights %d = %v, want allowed %v", rights, err, allowed)
				}
			}
			w := newWorld(t)
			if _, err := w.service.Import(t.Context(), []byte(c.body), audit.Actor{ID: "someone"}); (err == nil) != (c.least == settings.Ordinary) {
				t.Errorf("Import without rights = %v", err)
			}
		})
	}
}

// TestLevelsOfApplications: an operator raises the levels that an application of an organisation asks for; owners lower
// and remove them too.
func TestLevelsOfApplications(t *testing.T) {
	t.Parallel()
	of := func(applications string) []byte {
		return []byte(`{"organisations":[{"id":"acme","name":"Acme","service_providers":` + applications + `}]}`)
	}
	for name, tt := range map[string]struct {
		body  []byte
		least settings.Rights
	}{
		"raised":                                             {of(`{"one":` + leveled(4, 3) + `}`), settings.Ordinary},
		"attack 7230: a lower level":                         {of(`{"one":` + leveled(2, 2) + `}`), settings.SignIn},
		"attack 7230: a lower assurance":                     {of(`{"one":` + leveled(3, 1) + `}`), settings.SignIn},
		"attack 7230: without the application":               {of(`{}`), settings.SignIn},
		"attack 7230: without the organisation":              {[]byte(`{"organisations":[]}`), settings.SignIn},
		"attack 7230: by an organisation that asks for less": {[]byte(`{"organisations":[{"id":"acme","name":"Acme"},{"id":"b","name":"B","service_providers":{"one":` + leveled(1, 1) + `}}]}`), settings.SignIn},
		"in another organisation": {[]byte(`{"organisations":[{"id":"b","name":"B","service_providers":{"one":` +
			leveled(3, 2) + `}}]}`), settings.Ordinary},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for rights := settings.Ordinary; rights <= settings.Owner; rights++ {
				w := newWorld(t)
				if _, err := w.service.Import(t.Context(), of(`{"one":`+leveled(3, 2)+`}`), audit.Actor{ID: "someone"}); err != nil {
					t.Fatal(err)
				}
				_, err := w.service.Import(settings.WithRights(t.Context(), rights), tt.body, audit.Actor{ID: "someone"})
				allowed := rights >= tt.least
				if (err == nil) != allowed {
					t.Errorf("Import of %s with rights %d = %v, want allowed %v", tt.body, rights, err, allowed)
				}
				told := slices.ContainsFunc(w.events(), func(e audit.Event) bool { return e.Type == "configuration.SignInSettingsUpdatedEvent" })
				if want := allowed && tt.least > settings.Ordinary; told != want {
					t.Errorf("Import of %s with rights %d is told to owners: %v, want %v", tt.body, rights, told, want)
				}
			}
		})
	}
}

// TestMethodForAdministrators: what signs in administrators is changed by an owner alone, whatever is changed of it;
// that it no longer does so takes nothing from anyone.
func TestMethodForAdministrators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner := settings.WithRights(t.Context(), settings.Owner)
	if _, err := w.service.Import(owner, []byte(`{"login_methods":{"login_methods":[`+ownerProvider+`]}}`),
		audit.Actor{ID: "owner"}); err != nil {
		t.Fatal(err)
	}
	post := func(method string) int {
		return w.call(http.MethodPost, "/api/v2/config", `{"login_methods":{"login_methods":[`+method+`]}}`).status
	}
	if got := post(ownerProvider); got != 204 {
		t.Errorf("POST of the method as it is = %d, want 204", got)
	}
	for _, other := range []string{
		strings.Replace(ownerProvider, "https://mine.example/metadata", "https://evil.example/metadata", 1),
		strings.Replace(ownerProvider, `"enabled":true`, `"enabled":true,"auto_email_verification":true`, 1),
		strings.Replace(ownerProvider, `"id":"mine"`, `"id":"another"`, 1),
	} {
		if got := post(other); got != http.StatusForbidden {
			t.Errorf("POST of %s = %d, want 403", other, got)
		}
	}
	if got := post(anyProvider); got != 204 {
		t.Errorf("POST without administrators_enabled = %d, want 204", got)
	}
	if got := post(ownerProvider); got != http.StatusForbidden {
		t.Errorf("POST with administrators_enabled = %d, want 403", got)
	}
}

// TestAdministratorsAPI: an API client with administrators changes what signs in administrators.
func TestAdministratorsAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gate := &jsonapi.Gate{
		Log: zap.NewNop(), Issuer: "https://auth.example.com", Secure: func(*http.Request) bool { return true }, Authorize: authorize,
		Has: func(client, api string) bool { return client == "ops" && api == "administrators" },
	}
	w.handler = settings.NewAPI(w.service, gate, nil)
	w.must(204, http.MethodPost, "/api/v2/config", `{"login_methods":{"login_methods":[`+ownerProvider+`]}}`)
}

// TestSignInSettingsAreTold: a change of the settings of sign-in has an event of its own, and the hook learns what has
// changed; other changes do not.
func TestSignInSettingsAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var told []string
	var run storage.Tx
	w.service.OnSignInChange(func(tx storage.Tx, by audit.Actor, paths []string, _ time.Time) error {
		if tx != run { // what an earlier run of the closure has done was rolled back
			told, run = nil, tx
		}
		told = append(told, by.ID+": "+strings.Join(paths, " "))
		return nil
	})
	w.must(204, http.MethodPost, "/api/v2/config", `{"features":{"sign_up_enabled":true}}`)
	if len(told) > 0 {
		t.Errorf("told %q about a setting that is not one of sign-in", told)
	}
	w.must(204, http.MethodPost, "/api/v2/config", `{"features":{"sign_up_enabled":false,"pin_enabled":true}}`)
	if len(told) != 1 || told[0] != "ops: features.pin_enabled" {
		t.Errorf("told %q, want the change of features.pin_enabled alone", told)
	}
	var reasons []string
	for _, e := range w.events() {
		if e.Type == "configuration.SignInSettingsUpdatedEvent" {
			reasons = append(reasons, e.Reason)
		}
	}
	if len(reasons) != 1 || reasons[0] != "features.pin_enabled" {
		t.Errorf("events %q, want one about features.pin_enabled", reasons)
	}
}

// TestSwitchesOfSignInStayOpen: someone who is not an owner neither sets a switch of sign-in against the Caddyfile, by
// sending the value that it has, nor takes back that an owner has set it.
func TestSwitchesOfSignInStayOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operator := audit.Actor{ID: "operator"}
	const whole = `{"features":{"pin_enabled":false,"sign_up_enabled":false}}`
	if _, err := w.service.Import(t.Context(), []byte(whole), operator); err != nil {
		t.Fatal(err)
	}
	w.serving(settings.Config{Switches: map[string]bool{"features.sign_up_enabled": true, "features.pin_enabled": true}})
	w.shows(reset, `"pin_enabled":true`, `"sign_up_enabled":false`)

	w = newWorld(t)
	w.imports(`{"features":{"pin_enabled":false}}`)
	list, _, err := w.service.UnitStates(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range list {
		if u.Name == "features" {
			if _, err := w.service.ResetMember(t.Context(), "features", u.Tag, "features.pin_enabled", operator); err == nil {
				t.Error("an operator resets a switch of sign-in that an owner has set")
			}
		}
	}
	w.serving(settings.Config{Switches: map[string]bool{"features.pin_enabled": true}})
	w.shows(reset, `"pin_enabled":false`)
}

// TestUndoLeavesOtherSwitches: a switch of another unit that is set while someone undoes a change stays set.
func TestUndoLeavesOtherSwitches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.imports(`{"step_up":{"second_factor":"ALWAYS"}}`)
	last, err := w.service.LastChange(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	meanwhile := func() { w.imports(`{"features":{"sign_up_enabled":false}}`) }
	w.store.seen.Store(&meanwhile)
	if _, err := w.service.Undo(settings.WithRights(t.Context(), settings.Owner), last.ID, audit.Actor{ID: "owner"}); err != nil {
		t.Fatal(err)
	}
	w.serving(settings.Config{Switches: map[string]bool{"features.sign_up_enabled": true}})
	w.shows(reset, `"sign_up_enabled":false`)
}

// TestUndoNeedsTheSameRights: no one undoes what they could not change.
func TestUndoNeedsTheSameRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner := settings.WithRights(t.Context(), settings.Owner)
	if _, err := w.service.Import(owner, []byte(`{"step_up":{"second_factor":"ALWAYS"}}`), audit.Actor{ID: "owner"}); err != nil {
		t.Fatal(err)
	}
	last, err := w.service.LastChange(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.service.Undo(t.Context(), last.ID, audit.Actor{ID: "operator"}); err == nil {
		t.Error("Undo without rights succeeds")
	}
	if _, err := w.service.Undo(owner, last.ID, audit.Actor{ID: "owner"}); err != nil {
		t.Errorf("Undo as owner = %v", err)
	}
}

// TestAPIClientOutlivesItsOrganisation: the API client of an organisation that is removed, names another client or
// writes it in another case is never one of the whole server.
func TestAPIClientOutlivesItsOrganisation(t *testing.T) {
	t.Parallel()
	const rest = `{"id":"other","name":"Umbra","username_for_basic_auth":"umbra-api","service_providers":{"theirs":{"name":"Theirs"}}}`
	paths := []string{"/api/v2/config", "/api/v2/config/organisations", "/api/v2/config/features", "/api/config", "/v2/config/certificates"}
	for name, change := range map[string]string{
		"is removed":           `[` + rest + `]`,
		"names another client": `[{"id":"acme","name":"Acme","username_for_basic_auth":"new-api"},` + rest + `]`,
		"names nobody":         `[{"id":"acme","name":"Acme"},` + rest + `]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := owned(t)
			w.must(204, http.MethodPost, "/api/v2/config", `{"organisations":`+change+`}`)
			for _, path := range paths {
				if a := w.asAcme(http.MethodGet, path, ""); a.status != http.StatusForbidden {
					t.Errorf("GET %s = %d %.200s, want 403", path, a.status, a.body)
				}
			}
			if a := w.asAcme(http.MethodPost, "/api/v2/config", `{"features":{"sign_up_enabled":true}}`); a.status != http.StatusForbidden {
				t.Errorf("POST = %d %s, want 403", a.status, a.body)
			}
			if a := w.asAcme(http.MethodPost, "/api/v2/config",
				`{"organisations":[{"id":"acme","name":"Mine","username_for_basic_auth":"acme-api"}]}`); a.status != http.StatusForbidden {
				t.Errorf("POST of the organisation = %d %s, want 403", a.status, a.body)
			}
			w.must(204, http.MethodPost, "/api/v2/config", `{"organisations":[{"id":"new","name":"New","username_for_basic_auth":"acme-api"}]}`)
			if a := w.asAcme(http.MethodGet, "/api/v2/config/organisations", ""); a.status != 200 || !strings.Contains(a.body, `"New"`) {
				t.Errorf("GET as the client of another organisation = %d %s, want that one", a.status, a.body)
			}
		})
	}
	t.Run("writes it in another case", func(t *testing.T) {
		t.Parallel()
		w := owned(t)
		w.must(204, http.MethodPost, "/api/v2/config",
			`{"organisations":[{"id":"acme","name":"Acme","username_for_basic_auth":"ACME-api"},`+rest+`]}`)
		if a := w.asAcme(http.MethodGet, "/api/v2/config/organisations", ""); a.status != 200 || strings.Contains(a.body, "Umbra") {
			t.Errorf("GET of the organisations = %d %s, want its own alone", a.status, a.body)
		}
		if a := w.asAcme(http.MethodGet, "/api/v2/config/features", ""); a.status != http.StatusForbidden {
			t.Errorf("GET of the features = %d, want 403", a.status)
		}
	})
}

// TestBoundAPIClient: what the Caddyfile says of an API client holds before the organisation is there, and after it.
func TestBoundAPIClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bound := func(to string) {
		w.service = w.another(settings.Config{Fixed: []settings.LoginMethod{fixed}, Verify: verify, Clients: map[string]string{"ops": to}},
			zap.NewNop())
		w.handler = api(w.service)
	}
	w.must(204, http.MethodPost, "/api/v2/config", `{"organisations":[{"id":"acme","name":"Acme"},{"id":"other","name":"Umbra"}]}`)
	for _, c := range []struct {
		to                string
		features, listing int
	}{{"acme", 403, 200}, {"gone", 403, 403}, {settings.EveryOrganisation, 200, 200}} {
		bound(c.to)
		if got := w.call(http.MethodGet, "/api/v2/config/features", "").status; got != c.features {
			t.Errorf("organisation %s: GET of the features = %d, want %d", c.to, got, c.features)
		}
		a := w.call(http.MethodGet, "/api/v2/config/organisations", "")
		if a.status != c.listing || c.to == "acme" && strings.Contains(a.body, "Umbra") {
			t.Errorf("organisation %s: GET of the organisations = %d %s, want %d", c.to, a.status, a.body, c.listing)
		}
	}
}

// publicKey returns a new public key as key pairs have it.
func publicKey(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// TestKeyPairsOfAnImport: an import of key pairs alone says which ones it changes, and so does the comparison before
// it.
func TestKeyPairsOfAnImport(t *testing.T) {
	t.Parallel()
	of := func(public string) []byte {
		return []byte(`{"key_pairs":[{"name":"partner","key_type":"EC","private_key":"","public_key":"` + public + `"}]}`)
	}
	w, first, second := newWorld(t), publicKey(t), publicKey(t)
	owner := settings.WithRights(t.Context(), settings.Owner)
	changes := func(what string, raw []byte, from, to string) {
		t.Helper()
		compared, err := w.service.Diff(t.Context(), raw)
		if err != nil {
			t.Fatal(err)
		}
		imported, err := w.service.Import(owner, raw, audit.Actor{ID: "owner"})
		if err != nil {
			t.Fatal(err)
		}
		for how, list := range map[string][]settings.Change{"compared": compared, "imported": imported} {
			if from == to && len(list) == 0 {
				continue
			}
			var was, is struct {
				PublicKey string `json:"public_key"`
			}
			if len(list) != 1 || list[0].Path != "key_pairs.partner" || json.Unmarshal(list[0].From, &was) != nil ||
				json.Unmarshal(list[0].To, &is) != nil || was.PublicKey != from || is.PublicKey != to {
				t.Errorf("%s: %s = %s, want the public key of partner to change", what, how, list)
			}
		}
	}
	changes("a new pair", of(first), "", first)
	changes("the same pair", of(first), first, first)
	changes("another pair", of(second), first, second)
	exported, err := w.service.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	changes("an export", exported, second, second)

	t.Run("attack 9562: an operator replaces a certificate by an import", func(t *testing.T) {
		t.Parallel()
		for name, raw := range map[string]string{
			"alone":          string(of(first)),
			"with a setting": `{"features":{"sign_up_enabled":true},` + strings.TrimPrefix(string(of(first)), "{"),
			"a new one":      strings.Replace(string(of(first)), "partner", "another", 1),
		} {
			_, err := w.service.Import(settings.WithRights(t.Context(), settings.Ordinary), []byte(raw), audit.Actor{ID: "operator"})
			if e := new(jsonapi.Error); !errors.As(err, &e) || e.Status != http.StatusForbidden {
				t.Errorf("%s: Import = %v, want 403", name, err)
			}
		}
		after, err := w.service.Export(t.Context())
		if err != nil || string(after) != string(exported) {
			t.Errorf("the settings are %s, %v, want %s", after, err, exported)
		}
		whole := strings.Replace(string(exported), `"sign_up_enabled":false`, `"sign_up_enabled":true`, 1)
		if list, err := w.service.Import(t.Context(), []byte(whole), audit.Actor{ID: "operator"}); err != nil || len(list) != 1 {
			t.Errorf("Import of an export with a setting changed = %v, %v, want that change", list, err)
		}
	})
}
