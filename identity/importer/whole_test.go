package importer_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/importer"
)

// TestUsersLoseNothing: every member of a user of another system is part of the person or has a note.
func TestUsersLoseNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		format, user string
		file         func(user string) string
		silent       []string
	}{
		{
			importer.Keycloak, `{"id":"9b1c7a52-6f0e-4a0a-8a53-2a6f6f6c4d11","username":"ada","firstName":"Ada","lastName":"L","email":"ada@example.com","emailVerified":true,"enabled":false,
			"createdTimestamp":1700000000000,"totp":true,"attributes":{"locale":["de"],"team":["a","b"],"phone":["+31 20 123 4567"]},"groups":["/staff"],"realmRoles":["admin"],"clientRoles":{"shop":["x"]},
			"requiredActions":["UPDATE_PASSWORD"],"federatedIdentities":[{"identityProvider":"corp"}],"federationLink":"ldap","disableableCredentialTypes":["password"],"notBefore":5,"access":{"view":true},
			"clientConsents":[{"clientId":"shop"}],"origin":"x","credentials":[{"type":"otp"}]}`,
			func(u string) string { return `{"realm":"demo","users":[` + u + `]}` },
			[]string{"totp", "disableableCredentialTypes", "access"},
		},
		{
			importer.Auth0, `{"_id":{"$oid":"1"},"user_id":"auth0|1","username":"ada","email":"ada@example.com","email_verified":true,"name":"Ada L","given_name":"Ada","family_name":"L","nickname":"ad","picture":"https://x.example.com/p.png",
			"phone_number":"+31201234567","phone_verified":true,"blocked":true,"user_metadata":{"team":"a"},"app_metadata":{"r":1},"multifactor":["guardian"],"identities":[{"connection":"google","provider":"google-oauth2","isSocial":true}],
			"created_at":"2024-01-01","logins_count":4,"organizations":["x"]}`,
			func(u string) string { return strings.ReplaceAll(u, "\n", "") + "\n" },
			[]string{"_id", "created_at", "logins_count"},
		},
	} {
		var whole map[string]any
		if err := json.Unmarshal([]byte(tt.user), &whole); err != nil {
			t.Fatal(err)
		}
		told := func() string {
			raw, err := json.Marshal(whole)
			if err != nil {
				t.Fatal(err)
			}
			r, err := importer.New(strings.NewReader(tt.file(string(raw))), tt.format)
			if err != nil {
				t.Fatal(err)
			}
			p, _, err := r.Next()
			text, _ := json.Marshal(p)
			return fmt.Sprint(string(text), p.Notes, err)
		}
		all := told()
		for _, name := range slices.Sorted(maps.Keys(whole)) {
			v := whole[name]
			delete(whole, name)
			if told() == all && !slices.Contains(tt.silent, name) {
				t.Errorf("%s: %s is lost without a note", tt.format, name)
			}
			whole[name] = v
		}
	}
}

// TestTemporaryPassword: the person learns nothing of it, so the operator does.
func TestTemporaryPassword(t *testing.T) {
	t.Parallel()
	const user = `{"realm":"demo","users":[{"username":"ada","credentials":[{"type":"password","temporary":true,"secretData":"{\"value\":\"c2FsdHNhbHQ=\",\"salt\":\"c2FsdHNhbHQ=\"}","credentialData":"{\"hashIterations\":27500,\"algorithm\":\"pbkdf2-sha256\"}"}]}]}`
	r, err := importer.New(strings.NewReader(user), importer.Keycloak)
	if err != nil {
		t.Fatal(err)
	}
	if p, _, err := r.Next(); err != nil || p.PasswordHash == "" || !strings.Contains(strings.Join(p.Notes, "\n"), "temporary") {
		t.Errorf("the person is %+v, %v, want a note about the password", p, err)
	}
}

// TestRealmWithoutUsers: an export without users is a realm without people, and no mistake.
func TestRealmWithoutUsers(t *testing.T) {
	t.Parallel()
	for _, file := range []string{`{"realm":"staff","clients":[{"clientId":"shop"}]}`, `{"realm":"staff","users":[]}`} {
		r, err := importer.New(strings.NewReader(file), importer.Keycloak)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if p, _, err := r.Next(); err == nil || err.Error() != "EOF" {
			t.Errorf("%s: Next = %+v, %v, want the end", file, p, err)
		}
	}
}
