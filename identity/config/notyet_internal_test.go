package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

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
	case "url", "origin", "metadata":
		return "https://a.example.com"
	case "target", "path":
		return "/x"
	}
	return "x"
}

// TestNotYet: every member whose function does not exist yet is refused with 409 and the reason when it is set to anything but its default, and
// can be set to its default.
func TestNotYet(t *testing.T) {
	t.Parallel()
	s := newService(t)
	d := Defaults()
	standard := map[string]string{}
	for _, un := range table {
		visit(reflect.ValueOf(un.of(&d)).Elem(), un.name, un.name, false, func(v reflect.Value, _, path string, inside bool) {
			if !inside {
				standard[path] = string(encode(v.Interface()))
			}
		})
	}
	count := 0
	for _, m := range members() {
		e, _ := effectOf(m.path)
		if e.later == "" || strings.Contains(m.path, "{}") {
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
		if !errors.As(err, &refused) || refused.Status != http.StatusConflict || !strings.Contains(refused.Message, e.later) {
			t.Errorf("%s set to %v: %v, want 409 with %q", m.path, other(t, m, standard[m.path]), err, e.later)
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

// TestStoredBefore: what an earlier version has stored in a member without a function hinders neither the start nor other changes, until it is
// another value, or there are more of it.
func TestStoredBefore(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const old = `[{"id":"acme","name":"Acme","username_for_basic_auth":"acme","user_profile_attributes":{"saml_subject_name_attributes":{"type":"persistent"},` +
		`"identity_attributes":{"mail":{"attribute_name":"mail","required":true}}}}]`
	err := s.Store.Update(t.Context(), func(tx storage.Tx) error {
		if err := units.Put(tx, "organisations", unitRecord{JSON: []byte(old), Revision: 1}, time.Time{}); err != nil {
			return err
		}
		_, err := touch(tx, []byte("n"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err = New(t.Context(), s.cfg, s.Deps)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	u, err := s.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same := string(encode(u.Organisations))
	for name, tt := range map[string]struct {
		body string
		want int // 0: taken
	}{
		"what was read":        {`{"organisations":` + same + `}`, 0},
		"another unit":         {`{"features":{"sign_up_enabled":true}}`, 0},
		"another name":         {`{"organisations":` + strings.Replace(same, `"Acme"`, `"Acme Ltd"`, 1) + `}`, 0},
		"left out":             {`{"organisations":[{"id":"acme"}]}`, 0},
		"another value":        {`{"organisations":` + strings.Replace(same, `"username_for_basic_auth":"acme"`, `"username_for_basic_auth":"root"`, 1) + `}`, http.StatusConflict},
		"another organisation": {`{"organisations":[{"id":"acme","username_for_basic_auth":"acme"},{"id":"other","username_for_basic_auth":"acme"}]}`, http.StatusConflict},
		"another attribute":    {`{"organisations":[{"id":"acme","user_profile_attributes":{"identity_attributes":{"phone":{"attribute_name":"phone"}}}}]}`, http.StatusConflict},
		"a mapping":            {`{"organisations":[{"id":"acme","user_profile_attributes":{"custom_attribute_mappings":{"attribute_to_map_from":"a"}}}]}`, http.StatusConflict},
	} {
		_, err := s.Diff(t.Context(), []byte(tt.body))
		refused := new(rest.Error)
		if tt.want == 0 && err != nil || tt.want != 0 && (!errors.As(err, &refused) || refused.Status != tt.want) {
			t.Errorf("%s: %v, want status %d", name, err, tt.want)
		}
	}
}
