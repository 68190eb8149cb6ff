package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/settings/address"
	"github.com/gatehouse-id/gatehouse/identity/settings/effect"
	"github.com/gatehouse-id/gatehouse/identity/settings/kind"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

func newService(t *testing.T) *Service {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	ring, err := secret.NewKeyring(bytes.Repeat([]byte{7}, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), Config{Verify: func(LoginMethod) error { return nil }}, Deps{Store: store, Keyring: ring})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// other is a value that a member does not have by itself.
func other(t *testing.T, m member, standard string) any {
	t.Helper()
	word, limits, _ := strings.Cut(m.tag, ",")
	switch m.kind.Kind() {
	case reflect.Bool:
		return standard != "true"
	case reflect.Int:
		var n, low, high int
		fmt.Sscan(standard, &n)
		fmt.Sscanf(limits, "%d,%d", &low, &high)
		if n < high {
			return n + 1
		}
		return low
	case reflect.Slice:
		if strings.Contains(m.tag, "cidr") {
			return []string{"10.0.0.0/8"}
		}
		return []string{"x"}
	}
	if word == "enum" {
		alternatives := strings.Split(limits, "|")
		if last := alternatives[len(alternatives)-1]; standard != `"`+last+`"` {
			return last
		}
		return alternatives[0]
	}
	switch word {
	case "url", "origin", "metadata", "app":
		return "https://a.example.com"
	case "target", "path":
		return "/x"
	}
	return "x"
}

// TestNotYet: every member whose function does not exist yet is refused with 409 and the reason when it is set to
// anything but its default, and can be set to its default.
func TestNotYet(t *testing.T) {
	t.Parallel()
	s := newService(t)
	d := Defaults()
	standard := map[string]string{}
	for _, un := range table {
		d.visitMembers(un, func(v reflect.Value, p place) {
			if !p.entry {
				standard[p.path] = string(encode(v.Interface()))
			}
		})
	}
	count := 0
	for _, m := range members() {
		e, _ := effect.Of(m.path)
		if e.Later == nil || strings.Contains(m.path, "{}") {
			continue
		}
		count++
		set := func(v any) error {
			names := strings.Split(m.path, ".")
			list := -1
			for i := len(names) - 1; i >= 0; i-- {
				if strings.HasSuffix(names[i], "[]") && i != 1 { // the innermost list, such as of mappings, or the unit itself
					v = []any{v}
				}
				name := strings.TrimSuffix(names[i], "[]")
				if i == 1 && strings.HasSuffix(names[1], "[]") {
					list = i
					break
				}
				v = map[string]any{name: v}
			}
			if list >= 0 { // a login method, which matters once it is enabled
				method, _ := v.(map[string]any)
				method["id"], method["enabled"] = "x", true
				of, ok := attributeObjects[names[2]]
				if !ok {
					of = TypeSAML
				}
				method["type"] = of
				if of == TypeSAML {
					method["saml_attributes"] = map[string]any{"idp_metadata": "https://a.example.com/"}
				}
				if of, ok := method["eidas_attributes"].(map[string]any); ok {
					of["idp_metadata"], of["required_level_of_assurance"] = "https://a.example.com/", "LOW"
				}
				if mappings, ok := method["attribute_mappings"].([]any); ok {
					mapping, _ := mappings[0].(map[string]any)
					mapping["map_from"], mapping["map_to"] = "a", "b"
				}
				if fields, ok := method["custom_attribute_fields"].([]any); ok {
					field, _ := fields[0].(map[string]any)
					field["type"] = "TEXT"
				}
				v = map[string]any{"login_methods": map[string]any{"login_methods": []any{method}}}
			}
			raw, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Diff(t.Context(), raw)
			return err
		}
		if strings.Contains(m.tag, "keypair") {
			continue // one that is there would be needed; the type is refused anyway
		}
		err := set(other(t, m, standard[m.path]))
		refused := new(jsonapi.Error)
		if !errors.As(err, &refused) || refused.Status != http.StatusConflict || !strings.Contains(refused.Message, e.Later.Error()) {
			t.Errorf("%s set to %v: %v, want 409 with %q", m.path, other(t, m, standard[m.path]), err, e.Later)
		}
		if s, ok := standard[m.path]; ok {
			if err := set(json.RawMessage(s)); err != nil {
				t.Errorf("%s set to its default %s: %v", m.path, s, err)
			}
		}
	}
	if count == 0 {
		t.Error("no member is without a function: is the table read?")
	}
}

// TestTextsOfTheCaddyfile: a text of the Caddyfile that would be refused here, and the name of an attribute that came
// from a provider of an earlier Caddyfile, hinder no other change. No one can add another such name.
func TestTextsOfTheCaddyfile(t *testing.T) {
	t.Parallel()
	s := newService(t)
	names := func(key string) func(u *Units) error { // the provider of this key learns what the Caddyfile calls emails
		return func(u *Units) error {
			if len(u.Organisations) == 0 {
				u.Organisations = []Organisation{{ID: "acme", ServiceProviders: map[string]ServiceProvider{}}}
			}
			u.Organisations[0].ServiceProviders[key] = ServiceProvider{ID: key, IdentityAttributes: map[string]IdentityAttribute{"emails": {}}}
			return nil
		}
	}
	with := func(methods ...LoginMethod) *Service {
		cfg := s.cfg
		cfg.Fixed = methods
		out, err := New(t.Context(), cfg, Deps{Store: s.store, Keyring: s.keyring})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	edit := func(s *Service, apply func(u *Units) error) error {
		_, err := s.Edit(t.Context(), audit.Actor{ID: "ops"}, apply)
		return err
	}
	signUp := func(u *Units) error { u.Features.SignUpEnabled = !u.Features.SignUpEnabled; return nil }
	before := with(LoginMethod{
		ID: "corp", Name: "Corp", Type: TypeOIDC, Enabled: true, OIDC: &OIDCAttributes{DiscoveryURL: "http://corp.example"},
		AttributeMappings: []AttributeMapping{{ID: "a", MapFrom: "mails", MapTo: "emails"}},
	})
	after := with()
	for _, tt := range []struct {
		name  string
		at    *Service
		apply func(u *Units) error
		ok    bool
	}{
		{"a change beside an http URL of the Caddyfile", before, signUp, true},
		{"the name of an attribute that no one gives", after, names("one"), false},
		{"the name of an attribute of the Caddyfile", before, names("one"), true},
		{"a change after the attribute has gone from it", after, signUp, true},
		{"the same name for another provider", after, names("two"), false},
	} {
		if err := edit(tt.at, tt.apply); (err == nil) != tt.ok {
			t.Errorf("%s: Edit = %v, want it to be taken: %t", tt.name, err, tt.ok)
		}
	}
	exported, err := after.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := after.Import(t.Context(), exported, audit.Actor{ID: "ops"}); err != nil {
		t.Errorf("Import of the export = %v, want it to be taken", err)
	}
}

// TestImportRefusesWhatTheAPIRefuses: an import, its preview, and a bootstrap file take no word that the API refuses.
func TestImportRefusesWhatTheAPIRefuses(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for name, provider := range map[string]string{
		"a type": `"type":"portal"`, "metadata of another type": `"type":"OIDC","saml_metadata":"https://a.example.com/metadata"`,
		"a switch": `"use_trusted_device":"perhaps"`, "a misspelled claim": `"identity_attributes":{"emails":{}}`,
		"half a mapping": `"custom_attribute_mappings":{"attribute_to_map_from":"a"}`,
	} {
		body := []byte(`{"organisations":[{"id":"acme","service_providers":{"one":{"id":"one",` + provider + `}}}]}`)
		_, imported := s.Import(t.Context(), body, audit.Actor{ID: "ops"})
		_, previewed := s.Diff(t.Context(), body)
		_, checked := s.cfg.Check(body)
		for way, err := range map[string]error{"Import": imported, "Diff": previewed, "Check": checked} {
			if refused := new(jsonapi.Error); !errors.As(err, &refused) || refused.Status != http.StatusBadRequest {
				t.Errorf("%s: %s = %v, want status 400", name, way, err)
			}
		}
	}
}

// TestSchemes: no member that becomes a link, a redirect or a form's action takes an address that a browser would run.
func TestSchemes(t *testing.T) {
	t.Parallel()
	hostile := []string{
		"javascript:alert(1)", "JavaScript:alert(1)", "javascript://www.example.com/%0aalert(1)", " javascript:alert(1)",
		"java\tscript:alert(1)", "data:text/html,x",
		"vbscript:x", "file:///etc/passwd", "blob:https://example.com/x", "view-source:https://example.com", "https:example.com",
		"//evil.example", `/\evil.example`,
		"https://user@www.example.com/", "https://app@a@evil.example/", "https://www.example.com.evil.example\\@x", "http://www.example.com/",
		"ftp://www.example.com/",
		"intent://x#Intent;end", "https://www.example.com:99999/",
	}
	for _, name := range []string{"url", "target", "origin", "path", "whitelisted", "app"} {
		t.Run("peer 48: javascript and its kin as a "+name, func(t *testing.T) {
			t.Parallel()
			for _, s := range hostile {
				if kind.All[name].Check(s) == nil {
					t.Errorf("%q is taken", s)
				}
			}
		})
	}
	members := 0
	u := Defaults()
	u.Organisations = []Organisation{{}}
	u.LoginMethods.LoginMethods = []LoginMethod{{OIDC: &OIDCAttributes{}, SAML: &SAMLAttributes{}, QRCode: &QRCodeAttributes{}}}
	u.Redirects.URLWhitelist, u.Features.ActionToken.WhitelistedURLs = []WhitelistedURL{{}}, []WhitelistedURL{{}}
	for _, un := range table {
		u.visit(un, visitor{value: func(v reflect.Value, p place) {
			kind, _, _ := strings.Cut(p.tag, ",")
			last := p.path[strings.LastIndexAny(p.path, ".")+1:]
			if v.Kind() != reflect.String || !strings.Contains(last, "url") && !strings.HasSuffix(last, "_link") &&
				!strings.HasSuffix(last, "path") {
				return
			}
			if members++; !slices.Contains([]string{"url", "target", "origin", "path", "whitelisted", "app"}, kind) {
				t.Errorf("peer 48: %s is checked as %q, not as an address", p.path, kind)
			}
		}})
	}
	if members < 20 {
		t.Errorf("%d members looked at", members)
	}
	for at, ok := range map[string]bool{
		"myapp://login": true, "com.example.app://cb/x?y=1": true, "https://app.example.com/login": true, "http://127.0.0.1:8080/": true,
		"myapp:": false, "myapp": false,
		"my app://x": false, "1app://x": false, "MYAPP://x": false, "myapp://a b": false, "myapp://<script>": false,
	} {
		if got := address.CheckApp(at) == nil; got != ok {
			t.Errorf("CheckApp(%q) = %t, want %t", at, got, ok)
		}
	}
}
