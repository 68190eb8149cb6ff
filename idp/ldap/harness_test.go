package ldap_test

import (
	"context"
	"net"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/ldap"
	"github.com/gatehouse-id/gatehouse/idp/ldap/ldaptest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// alice and bob are people of the directory; mallory has put bob's name where no name belongs.
func entries() []ldaptest.Entry {
	return []ldaptest.Entry{
		{DN: ldaptest.Base, Attributes: map[string][]string{"dc": {"example"}}},
		{DN: "uid=alice," + ldaptest.People, Password: "alice password", Attributes: map[string][]string{
			"uid": {"alice"}, "cn": {"Alice Example"}, "mail": {"alice@example.com"}, "entryUUID": {"11111111-aaaa-4aaa-8aaa-000000000001"},
			"memberOf": {"cn=staff,ou=groups," + ldaptest.Base, "cn=wiki,ou=elsewhere," + ldaptest.Base}, "department": {"Research"},
		}},
		{DN: "uid=bob," + ldaptest.People, Password: "bob password", Attributes: map[string][]string{
			"uid": {"bob"}, "cn": {"Bob"}, "mail": {"bob@example.com"}, "entryUUID": {"11111111-aaaa-4aaa-8aaa-000000000002"},
		}},
		{DN: "cn=staff,ou=groups," + ldaptest.Base, Attributes: map[string][]string{"cn": {"staff"}, "member": {"uid=alice," + ldaptest.People}}},
		{
			DN:         "cn=ops,ou=groups," + ldaptest.Base,
			Attributes: map[string][]string{"cn": {"ops"}, "member": {"uid=alice," + ldaptest.People}, "memberUid": {"alice"}},
		},
	}
}

// searching is the configuration of a directory with an account that searches.
func searching(urls ...string) ldap.Config {
	return ldap.Config{
		URLs: urls, BindDN: ldaptest.Reader, BindPassword: secret.New(ldaptest.ReaderPW), Base: ldaptest.People,
		Mapping: idp.Mapping{Attributes: []idp.Attribute{{From: "uid", To: "username"}, {From: "mail", To: "email"}, {From: "cn", To: "name"}}},
	}
}

func env() idp.Env {
	return idp.Env{ID: "staff", Now: time.Now, Log: zap.NewNop(), Dial: (&net.Dialer{}).DialContext}
}

// open returns a provider, until the test ends.
func open(t testing.TB, cfg ldap.Config) *ldap.Provider {
	t.Helper()
	p, err := ldap.New(cfg, env())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// signIn returns the identity, and the accounts that Found was told.
func signIn(ctx context.Context, p *ldap.Provider, username, password string) (id *idp.Identity, found []string, err error) {
	id, err = p.SignIn(ctx, idp.Credentials{Username: username, Password: password, Found: func(account string) error {
		found = append(found, account)
		return nil
	}})
	return id, found, err
}
