package config

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
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config/address"
	"github.com/gatehouse-id/gatehouse/identity/config/effect"
	"github.com/gatehouse-id/gatehouse/identity/config/kind"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/rest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
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
		if e.Later == "" || strings.Contains(m.path, "{}") {
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
		refused := new(rest.Error)
		if !errors.As(err, &refused) || refused.Status != http.StatusConflict || !strings.Contains(refused.Message, e.Later) {
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

// TestStoredBefore: what an earlier version has stored in a member without a function hinders neither the start nor
// other changes, until it is another value, or there are more of it.
func TestStoredBefore(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const old = `{"login_methods":[{"id":"p","name":"Partner","type":"EIDAS","enabled":true,"removable":true,"authentication_level":1,` +
		`"eidas_attributes":{"idp_metadata":"https://a.example.com/","required_level_of_assurance":"LOW","bsn_verification_point":"a"}}]}`
	err := s.store.Update(t.Context(), func(tx storage.Tx) error {
		if err := units.Put(tx, "login_methods", unitRecord{JSON: []byte(old), Revision: 1}, time.Time{}); err != nil {
			return err
		}
		_, err := writeVersion(tx, versionRecord{Nonce: []byte("n")})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err = New(t.Context(), s.cfg, Deps{Store: s.store, Keyring: s.keyring})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	u, err := s.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same := string(encode(u.LoginMethods))
	method := strings.TrimSuffix(strings.TrimPrefix(old, `{"login_methods":[`), "]}")
	replaced := func(old, with string) string {
		return `{"login_methods":` + strings.Replace(same, old, with, 1) + `}`
	}
	for name, tt := range map[string]struct {
		body string
		want int // 0: taken
	}{
		"what was read":  {replaced("", ""), 0},
		"another unit":   {`{"features":{"sign_up_enabled":true}}`, 0},
		"another name":   {replaced(`"Partner"`, `"The partner"`), 0},
		"left out":       {replaced(`"bsn_verification_point":"a"`, `"bsn_verification_point":""`), 0},
		"another value":  {replaced(`"bsn_verification_point":"a"`, `"bsn_verification_point":"b"`), http.StatusConflict},
		"another member": {replaced(`"pseudo_id_verification_point":""`, `"pseudo_id_verification_point":"a"`), http.StatusConflict},
		"another method": {`{"login_methods":{"login_methods":[` + method + `,` + strings.Replace(method, `"p"`, `"q"`, 1) + `]}}`, http.StatusConflict},
	} {
		_, err := s.Diff(t.Context(), []byte(tt.body))
		refused := new(rest.Error)
		if tt.want == 0 && err != nil || tt.want != 0 && (!errors.As(err, &refused) || refused.Status != tt.want) {
			t.Errorf("%s: %v, want status %d", name, err, tt.want)
		}
	}
}

// TestInvalidTextStoredBefore: a text that an earlier version took, and this one refuses, hinders no other change.
func TestInvalidTextStoredBefore(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const old = `{"default":{"a/b":"x"},"locales":{"nl_BE_":{"a":"x"}}}`
	err := s.store.Update(t.Context(), func(tx storage.Tx) error {
		if err := units.Put(tx, "custom_messages", unitRecord{JSON: []byte(old), Revision: 1}, time.Time{}); err != nil {
			return err
		}
		_, err := writeVersion(tx, versionRecord{Nonce: []byte("n")})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for body, ok := range map[string]bool{
		`{"features":{"sign_up_enabled":true}}`: true,
		`{"custom_messages":{"default":{"a/b":"another text"},"locales":{"nl_BE_":{"a":"x"},"de":{"a":"x"}}}}`: true,
		`{"custom_messages":{"default":{},"locales":{}}}`:                                                      true,
		`{"custom_messages":{"default":{"a/b":"x","c/d":"x"},"locales":{}}}`:                                   false,
		`{"custom_messages":{"default":{},"locales":{"nl_NL_":{"a":"x"}}}}`:                                    false,
	} {
		if _, err := s.Diff(t.Context(), []byte(body)); (err == nil) != ok {
			t.Errorf("%s: %v, want it to be taken: %t", body, err, ok)
		}
	}
}

// TestOrganisationTextsStoredBefore: a type of a service provider, and a use_trusted_device, that earlier versions took
// without an effect, still open, hinder no other change, and come with an export of such a version. New ones are
// refused.
func TestOrganisationTextsStoredBefore(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const old = `[{"id":"acme","service_providers":{"one":{"id":"one","type":"portal","use_trusted_device":"perhaps"}}}]`
	err := s.store.Update(t.Context(), func(tx storage.Tx) error {
		if err := units.Put(tx, "organisations", unitRecord{JSON: []byte(old), Revision: 1}, time.Time{}); err != nil {
			return err
		}
		_, err := writeVersion(tx, versionRecord{Nonce: []byte("n")})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	u, err := s.Current(t.Context())
	if err != nil || u.TrustsBrowsers("one") || !u.SignsInBy("one", ProtocolSAML) || !u.SignsInBy("one", ProtocolOpenID) {
		t.Errorf("what was stored has an effect: %v", err)
	}
	for name, tt := range map[string]struct {
		change func(u *Units, sp *ServiceProvider)
		ok     bool
	}{
		"another unit":   {func(u *Units, _ *ServiceProvider) { u.Features.SignUpEnabled = true }, true},
		"another member": {func(_ *Units, sp *ServiceProvider) { sp.Name = "One" }, true},
		"a word":         {func(_ *Units, sp *ServiceProvider) { sp.Type = "OpenID_connect" }, true},
		"another text":   {func(_ *Units, sp *ServiceProvider) { sp.Type = "door" }, false},
		"no metadata":    {func(_ *Units, sp *ServiceProvider) { sp.Type = "SAML" }, true}, // it has no effect yet
		"another switch": {func(_ *Units, sp *ServiceProvider) { sp.UseTrustedDevice = "maybe" }, false},
		"neither":        {func(_ *Units, sp *ServiceProvider) { sp.Type, sp.UseTrustedDevice = "", "True" }, true},
	} {
		_, err := s.Edit(t.Context(), event.Actor{ID: "ops"}, func(u *Units) error {
			sp := u.Organisations[0].ServiceProviders["one"]
			sp.Type, sp.UseTrustedDevice = "portal", "perhaps"
			tt.change(u, &sp)
			u.Organisations[0].ServiceProviders["one"] = sp
			return nil
		})
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v, want it to be taken: %t", name, err, tt.ok)
		}
		if _, err := s.Import(t.Context(), []byte(`{"organisations":`+old+`}`), event.Actor{ID: "ops"}); err != nil {
			t.Errorf("the export of an earlier version: %v", err)
		}
	}
}

// TestSchemes: no member that becomes a link, a redirect or a form's action takes an address that a browser would run.
func TestSchemes(t *testing.T) {
	t.Parallel()
	hostile := []string{
		"javascript:alert(1)", "JavaScript:alert(1)", "javascript://www.example.com/%0aalert(1)", " javascript:alert(1)", "java\tscript:alert(1)", "data:text/html,x",
		"vbscript:x", "file:///etc/passwd", "blob:https://example.com/x", "view-source:https://example.com", "https:example.com", "//evil.example", `/\evil.example`,
		"https://user@www.example.com/", "https://app@a@evil.example/", "https://www.example.com.evil.example\\@x", "http://www.example.com/", "ftp://www.example.com/",
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
			if v.Kind() != reflect.String || !strings.Contains(last, "url") && !strings.HasSuffix(last, "_link") && !strings.HasSuffix(last, "path") {
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
		"myapp://login": true, "com.example.app://cb/x?y=1": true, "https://app.example.com/login": true, "http://127.0.0.1:8080/": true, "myapp:": false, "myapp": false,
		"my app://x": false, "1app://x": false, "MYAPP://x": false, "myapp://a b": false, "myapp://<script>": false,
	} {
		if got := address.CheckApp(at) == nil; got != ok {
			t.Errorf("CheckApp(%q) = %t, want %t", at, got, ok)
		}
	}
}
