package ldap_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/ldap"
	"github.com/gatehouse-id/gatehouse/idp/ldap/ldaptest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	s := ldaptest.Start(t, ldaptest.Config{Entries: entries(), Refer: "ldap://elsewhere.example.com/dc=example,dc=com"})
	template := ldap.Config{
		URLs: []string{s.URL}, Template: "uid=%s," + ldaptest.People, Mapping: searching().Mapping,
		Attributes: []string{"department"}, Level: 2,
	}
	for name, p := range map[string]*ldap.Provider{"by a search": open(t, searching(s.URL)), "by a template": open(t, template)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id, found, err := signIn(t.Context(), p, "alice", "alice password")
			if err != nil {
				t.Fatal(err)
			}
			if id.Subject != "11111111-aaaa-4aaa-8aaa-000000000001" || id.Username != "alice" || id.Email != "alice@example.com" ||
				id.EmailVerified || len(found) != 1 || found[0] == "" {
				t.Errorf("alice is %+v, found as %q", id, found)
			}
			if got := id.Details["department"]; name == "by a template" && (!slices.Equal(got, []string{"Research"}) || id.Level != 2) {
				t.Errorf("details %v at level %d, want the attribute that is fetched under its own name at level 2", id.Details, id.Level)
			}
			for _, wrong := range [][2]string{{"alice", "bob password"}, {"nobody", "alice password"}, {"alice", "alice passwor"}} {
				if _, found, err := signIn(t.Context(), p, wrong[0], wrong[1]); !errors.Is(err, idp.ErrCredentials) || len(found) != 1 {
					t.Errorf("%q: %v, counted %q, want ErrCredentials and one attempt", wrong, err, found)
				}
			}
		})
	}
}

// TestEmptyPasswords: a server takes a bind without a password for a wish to be no one, and answers that it has
// succeeded.
func TestEmptyPasswords(t *testing.T) {
	t.Parallel()
	t.Run("attack 126: a password that is empty, of spaces or has NUL", func(t *testing.T) {
		t.Parallel()
		s := ldaptest.Start(t, ldaptest.Config{Entries: entries()})
		template := open(t, ldap.Config{URLs: []string{s.URL}, Template: "uid=%s," + ldaptest.People})
		for _, p := range []*ldap.Provider{open(t, searching(s.URL)), template} {
			for _, password := range []string{"", " ", "   \t", "\u00a0", "\x00", "\x00x", "alice password\x00", strings.Repeat("x", 1025)} {
				if id, _, err := signIn(t.Context(), p, "alice", password); !errors.Is(err, idp.ErrCredentials) {
					t.Errorf("password %q: %v, %v, want ErrCredentials", password, id, err)
				}
			}
			for _, username := range []string{"", " ", "alice\x00", " alice", "ali\nce", "\xff", strings.Repeat("x", 257)} {
				if id, _, err := signIn(t.Context(), p, username, "alice password"); !errors.Is(err, idp.ErrCredentials) {
					t.Errorf("username %q: %v, %v, want ErrCredentials", username, id, err)
				}
			}
		}
		if binds := s.Binds(); len(binds) != 0 {
			t.Errorf("the server was asked: %q", binds)
		}
		if _, err := ldap.New(ldap.Config{URLs: []string{s.URL}, BindDN: ldaptest.Reader, Base: ldaptest.Base}, env()); err == nil {
			t.Error("the account that searches can have no password, want an error")
		}
	})
}

// TestHostileUsernames: what is typed is a value, never a part of a filter or a DN.
func TestHostileUsernames(t *testing.T) {
	t.Parallel()
	s := ldaptest.Start(t, ldaptest.Config{Entries: entries()})
	search := searching(s.URL)
	search.Match = "(&(uid=%s)(mail=*))"
	providers := []*ldap.Provider{open(t, search), open(t, ldap.Config{URLs: []string{s.URL}, Template: "uid=%s," + ldaptest.People})}
	for i, name := range Hostile() {
		for _, p := range providers {
			if id, _, err := signIn(t.Context(), p, name, "alice password"); !errors.Is(err, idp.ErrCredentials) {
				t.Errorf("%d: %q signs in as %+v: %v", i, name, id, err)
			}
		}
	}
	for _, b := range s.Binds() {
		if b.DN == "uid=alice,"+ldaptest.People || b.DN == "" {
			t.Errorf("somebody has bound as %q", b.DN)
		}
	}
}

// TestNamesWithSpecialCharacters: a name that needs escaping is still a name.
func TestNamesWithSpecialCharacters(t *testing.T) {
	t.Parallel()
	name := `O'Brien (ops)*, Pat+x=y;"<>\ #é`
	dn := "uid=" + `O'Brien \28ops\29\2A\, Pat\+x\=y\;\"\<\>\\ #` + "é," + ldaptest.People
	s := ldaptest.Start(t, ldaptest.Config{Entries: []ldaptest.Entry{
		{DN: dn, Password: "pat password", Attributes: map[string][]string{"uid": {name}, "entryUUID": {"22222222-aaaa-4aaa-8aaa-000000000001"}}},
	}})
	for _, p := range []*ldap.Provider{
		open(t, searching(s.URL)),
		open(t, ldap.Config{URLs: []string{s.URL}, Template: "uid=%s," + ldaptest.People}),
	} {
		if id, _, err := signIn(t.Context(), p, name, "pat password"); err != nil || id.Subject == "" {
			t.Errorf("%q: %+v, %v", name, id, err)
		}
	}
}

// TestOneSpelling: a directory takes many spellings for one name, and the attempts at it are counted together.
func TestOneSpelling(t *testing.T) {
	t.Parallel()
	s := ldaptest.Start(t, ldaptest.Config{Entries: entries()})
	p := open(t, ldap.Config{URLs: []string{s.URL}, Template: "uid=%s," + ldaptest.People})
	seen := map[string]bool{}
	for _, name := range []string{"alice b", "ALICE  B", "ａｌｉｃｅ b", "ali\u00adce b", "ali\u200bce\u00a0b", "alíce b", "ali\u0301ce b"} {
		_, found, _ := signIn(t.Context(), p, name, "wrong")
		for _, f := range found {
			seen[f] = true
		}
	}
	if len(seen) > 1 {
		t.Errorf("the spellings are counted apart: %q", slices.Collect(maps.Keys(seen)))
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	s := ldaptest.Start(t, ldaptest.Config{Entries: entries()})
	groups := "ou=groups," + ldaptest.Base
	for name, c := range map[string]struct {
		groups ldap.Groups
		want   []string
	}{
		"memberOf by name": {
			ldap.Groups{Map: []ldap.GroupMap{{From: "Staff", To: "staff"}, {From: "ops", To: "admins"}}},
			[]string{"staff"},
		},
		"memberOf by DN": {ldap.Groups{Map: []ldap.GroupMap{
			{From: "CN=staff, " + groups, To: "a"},
			{From: "cn=wiki," + groups, To: "b"},
		}}, []string{"a"}},
		"a search by the DN": {ldap.Groups{
			Base: groups, Match: "(member=%d)",
			Map: []ldap.GroupMap{{From: "staff", To: "staff"}, {From: "cn=ops," + groups, To: "admins"}},
		}, []string{"staff", "admins"}},
		"a search by the username": {ldap.Groups{
			Base: groups, Match: "(memberUid=%u)",
			Map: []ldap.GroupMap{{From: "staff", To: "staff"}, {From: "ops", To: "admins"}},
		}, []string{"admins"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := searching(s.URL)
			cfg.Groups = c.groups
			p := open(t, cfg)
			id, _, err := signIn(t.Context(), p, "alice", "alice password")
			if err != nil || !slices.Equal(id.Groups, c.want) || len(p.OwnGroups()) != 2 && len(c.groups.Map) == 2 {
				t.Errorf("groups %v, %v, want %v", id, err, c.want)
			}
			if id, _, err := signIn(t.Context(), p, "bob", "bob password"); err != nil || len(id.Groups) != 0 {
				t.Errorf("bob: %+v, %v, want no groups", id, err)
			}
		})
	}
}

// TestManyGroups are read page by page, and too many of them end the sign-in: one that is left out could be one that
// denies something.
func TestManyGroups(t *testing.T) {
	t.Parallel()
	for many, ok := range map[int]bool{450: true, 1001: false} {
		t.Run(fmt.Sprint(many), func(t *testing.T) {
			t.Parallel()
			list := entries()
			for i := range many {
				list = append(list, ldaptest.Entry{
					DN:         fmt.Sprintf("cn=g%d,ou=many,%s", i, ldaptest.Base),
					Attributes: map[string][]string{"member": {"uid=alice," + ldaptest.People}},
				})
			}
			s := ldaptest.Start(t, ldaptest.Config{Entries: list})
			cfg := searching(s.URL)
			cfg.Groups = ldap.Groups{
				Base: "ou=many," + ldaptest.Base, Match: "(member=%d)",
				Map: []ldap.GroupMap{{From: fmt.Sprintf("g%d", many-1), To: "last"}},
			}
			id, _, err := signIn(t.Context(), open(t, cfg), "alice", "alice password")
			if ok && (err != nil || !slices.Equal(id.Groups, []string{"last"})) {
				t.Errorf("%+v, %v, want the group of the last page", id, err)
			}
			if !ok && (err == nil || !strings.Contains(err.Error(), "more than 1000 groups")) {
				t.Errorf("%+v, %v, want an error", id, err)
			}
		})
	}
}

// TestActiveDirectory plays back what Active Directory answers.
func TestActiveDirectory(t *testing.T) {
	t.Parallel()
	guid, err := hex.DecodeString("01020304050607080910111213141516")
	if err != nil {
		t.Fatal(err)
	}
	person := func(more map[string][]string) []ldaptest.Entry {
		e := ldaptest.Entry{DN: "CN=Alice Example,OU=Staff,DC=example,DC=com", Password: "alice password", Attributes: map[string][]string{
			"sAMAccountName": {"alice"}, "userPrincipalName": {"alice@example.com"}, "objectGUID": {string(guid)}, "userAccountControl": {"512"},
			"accountExpires": {"9223372036854775807"}, "pwdLastSet": {"133000000000000000"},
			"memberOf": {"CN=Domain Users,CN=Users,DC=example,DC=com"},
		}}
		maps.Copy(e.Attributes, more)
		return []ldaptest.Entry{{DN: ldaptest.Base}, e}
	}
	cfg := searching()
	cfg.Base, cfg.Match = ldaptest.Base, "(|(sAMAccountName=%s)(userPrincipalName=%s))"
	byUPN := ldap.Config{Template: "%s@example.com", Base: ldaptest.Base, Match: "(sAMAccountName=%s)"}
	upnBind := func(dn, password string) *ldaptest.Answer {
		if dn == "alice@example.com" && password == "alice password" {
			return &ldaptest.Answer{Policy: -1}
		}
		return nil
	}
	t.Run("signs in", func(t *testing.T) {
		t.Parallel()
		s := ldaptest.Start(t, ldaptest.Config{Entries: person(nil), Bind: upnBind})
		search, template := cfg, byUPN
		search.URLs, template.URLs = []string{s.URL}, []string{s.URL}
		for _, try := range []struct {
			cfg  ldap.Config
			name string
		}{{search, "alice"}, {search, "ALICE@example.com"}, {template, "alice"}} {
			id, _, err := signIn(t.Context(), open(t, try.cfg), try.name, "alice password")
			if err != nil || id.Subject != "04030201-0605-0807-0910-111213141516" {
				t.Errorf("%s: %+v, %v, want the objectGUID as Active Directory shows it", try.name, id, err)
			}
		}
		for _, name := range []string{`EXAMPLE\alice`, "alice@example.com", "S-1-5-21,x", "CN=Alice Example"} {
			if _, _, err := signIn(t.Context(), open(t, template), name, "alice password"); !errors.Is(err, idp.ErrCredentials) {
				t.Errorf("%s signs in by a template: %v", name, err)
			}
		}
		id, err := open(t, search).Refresh(t.Context(), []byte("04030201-0605-0807-0910-111213141516"))
		if err != nil || id.Subject != "04030201-0605-0807-0910-111213141516" {
			t.Errorf("Refresh = %+v, %v", id, err)
		}
	})
	for code, want := range map[string]string{
		"525": "", "52e": "", "775": "",
		"530": "at this time", "531": "from this computer", "532": "password has expired", "533": "is disabled",
		"701": "account has expired", "773": "changed first",
	} {
		t.Run("data "+code, func(t *testing.T) {
			t.Parallel()
			s := ldaptest.Start(t, ldaptest.Config{Entries: person(nil), Bind: func(dn, _ string) *ldaptest.Answer {
				if dn == ldaptest.Reader {
					return nil
				}
				return &ldaptest.Answer{Code: 49, Message: "80090308: LdapErr: DSID-0C090447, comment: AcceptSecurityContext error, data " +
					code + ", v4563\x00", Policy: -1}
			}})
			search := cfg
			search.URLs = []string{s.URL}
			_, _, err := signIn(t.Context(), open(t, search), "alice", "alice password")
			checkRejected(t, err, want)
		})
	}
	for want, more := range map[string]map[string][]string{
		"is disabled": {"userAccountControl": {"514"}}, "account has expired": {"accountExpires": {"132000000000000000"}},
		"changed first": {"pwdLastSet": {"0"}},
	} {
		t.Run("an entry: "+want, func(t *testing.T) {
			t.Parallel()
			s := ldaptest.Start(t, ldaptest.Config{Entries: person(more)})
			search := cfg
			search.URLs = []string{s.URL}
			p := open(t, search)
			_, _, err := signIn(t.Context(), p, "alice", "alice password")
			checkRejected(t, err, want)
			_, _, err = signIn(t.Context(), p, "alice", "wrong")
			checkRejected(t, err, "") // who does not know the password learns nothing
		})
	}
}

// checkRejected wants a *idp.Rejection that contains the words, or ErrCredentials for no words.
func checkRejected(t *testing.T, err error, want string) {
	t.Helper()
	r := new(idp.Rejection)
	switch {
	case want == "" && !errors.Is(err, idp.ErrCredentials):
		t.Errorf("%v, want ErrCredentials", err)
	case want != "" && (!errors.As(err, &r) || !strings.Contains(r.Reason, want) || r.Password != strings.Contains(want, "password") &&
		want != "changed first"):
		t.Errorf("%v, want a rejection with %q", err, want)
	}
}

// TestPasswordPolicy plays back what OpenLDAP answers with its password policy.
func TestPasswordPolicy(t *testing.T) {
	t.Parallel()
	for want, answer := range map[string]ldaptest.Answer{
		"password has expired": {Code: 49, Policy: 0}, "": {Code: 49, Policy: 1}, "changed first": {Code: 0, Policy: 2},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			s := ldaptest.Start(t, ldaptest.Config{Entries: entries(), Bind: func(dn, _ string) *ldaptest.Answer {
				if dn == ldaptest.Reader {
					return nil
				}
				return &answer
			}})
			_, _, err := signIn(t.Context(), open(t, searching(s.URL)), "alice", "alice password")
			checkRejected(t, err, want)
		})
	}
}

func TestNetworks(t *testing.T) {
	t.Parallel()
	s := ldaptest.Start(t, ldaptest.Config{})
	cfg := searching(s.URL)
	cfg.Networks = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	p := open(t, cfg)
	for addr, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "fd00::1": true, "fd00::1%eth0": true, "11.0.0.1": false, "::ffff:11.0.0.1": false,
		"::a01:203": false, "2002:a01:203::": false,
	} {
		if got := p.Serves(netip.MustParseAddr(addr)); got != want {
			t.Errorf("Serves(%s) = %t", addr, got)
		}
	}
	if p.Serves(netip.Addr{}) {
		t.Error("an address that is not known is served")
	}
}

// TestPool: many sign-ins at once share the connections, and none is left over.
func TestPool(t *testing.T) {
	t.Parallel()
	s := ldaptest.Start(t, ldaptest.Config{Entries: entries()})
	cfg := searching(s.URL)
	cfg.Pool = 4
	p := open(t, cfg)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for i := range 20 {
				who := []string{"alice", "bob"}[i%2]
				if id, _, err := signIn(context.Background(), p, who, who+" password"); err != nil || id.Username != who {
					t.Errorf("%s: %+v, %v", who, id, err)
				}
				if _, _, err := signIn(context.Background(), p, who, "wrong"); !errors.Is(err, idp.ErrCredentials) {
					t.Errorf("%s with a wrong password: %v", who, err)
				}
			}
		})
	}
	all.Wait()
	if made, most, _ := s.Connections(); made > 4 || most > 4 {
		t.Errorf("%d connections were made, %d at once, want 4", made, most)
	}
	s.Drop() // what a server does with idle connections
	if _, _, err := signIn(t.Context(), p, "alice", "alice password"); err != nil {
		t.Errorf("after the server has closed the connections: %v", err)
	}
	p.Close()
	if _, _, err := signIn(t.Context(), p, "alice", "alice password"); err == nil {
		t.Error("a provider that is closed signs somebody in")
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	good := searching("ldaps://ldap.example.com")
	for want, change := range map[string]func(*ldap.Config){
		"":                   func(*ldap.Config) {},
		"1 to 10 servers":    func(c *ldap.Config) { c.URLs = nil },
		"not the address":    func(c *ldap.Config) { c.URLs = []string{"https://ldap.example.com"} },
		"rest of the search": func(c *ldap.Config) { c.URLs = []string{"ldap://ldap.example.com/dc=x??sub"} },
		"is there twice":     func(c *ldap.Config) { c.URLs = []string{"ldaps://a", "ldaps://a:636"} },
		"name an account":    func(c *ldap.Config) { c.BindDN = "" },
		"keep one of them":   func(c *ldap.Config) { c.Template = "uid=%s,dc=x" },
		"needs a password":   func(c *ldap.Config) { c.BindPassword = secret.String{} },
		"base: name the DN":  func(c *ldap.Config) { c.Base = "" },
		"is not a DN":        func(c *ldap.Config) { c.Base = "people" },
		"everybody would":    func(c *ldap.Config) { c.Match = "(uid=*)" },
		"is not a filter":    func(c *ldap.Config) { c.Match = "(uid=%s" },
		"have %s once":       func(c *ldap.Config) { c.BindDN, c.Template = "", "uid=x,dc=x" },
		"neither a DN":       func(c *ldap.Config) { c.BindDN, c.Template = "", "%s" },
		"must begin with":    func(c *ldap.Config) { c.BindDN, c.Template = "", "ou=x,uid=%s,dc=x" },
		"both base and":      func(c *ldap.Config) { c.Groups.Match = "(member=%d)" },
		"name of an attr":    func(c *ldap.Config) { c.Attributes = []string{"*"} },
		"number of conn":     func(c *ldap.Config) { c.Pool = 201 },
		"is longer than":     func(c *ldap.Config) { c.Timeout = time.Minute },
	} {
		cfg := good
		change(&cfg)
		err := cfg.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("Validate() = %v, want %q", err, want)
		}
	}
}

// TestRefresh: people are found again by their identifier, also where it is no text, and no one else is.
func TestRefresh(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		attribute, alice, bob, identifyBy string
		want                              string // subject of alice
	}{
		"OpenLDAP": {
			"entryUUID", "11111111-aaaa-4aaa-8aaa-000000000001", "11111111-aaaa-4aaa-8aaa-000000000002", "",
			"11111111-aaaa-4aaa-8aaa-000000000001",
		},
		"Active Directory": {
			"objectGUID", "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x10\x11\x12\x13\x14\x15\xfe",
			"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x10\x11\x12\x13\x14\x15\xff", "", "04030201-0605-0807-0910-1112131415fe",
		},
		"the objectSid of Active Directory": {
			"objectSid", "\x01\x02\x00\x00\x00\x00\x00\x05 \x00\x00\x00\xfe\x03\x00\x00",
			"\x01\x02\x00\x00\x00\x00\x00\x05 \x00\x00\x00\xff\x03\x00\x00", "objectSid", "010200000000000520000000fe030000",
		},
		"eDirectory": {"GUID", "0123456789abcde\xfe", "0123456789abcde\xff", "", "303132333435363738396162636465fe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := entries()
			for i, value := range map[int]string{1: tt.alice, 2: tt.bob} {
				delete(list[i].Attributes, "entryUUID")
				list[i].Attributes[tt.attribute] = []string{value}
			}
			cfg := searching(ldaptest.Start(t, ldaptest.Config{Entries: list}).URL)
			cfg.IdentifyBy = tt.identifyBy
			p := open(t, cfg)
			id, _, err := signIn(t.Context(), p, "alice", "alice password")
			for _, does := range []string{"SignIn", "Refresh", "the next Refresh"} {
				if err != nil || id.Subject != tt.want || id.Username != "alice" {
					t.Fatalf("%s = %+v, %v, want alice with the subject %s", does, id, err, tt.want)
				}
				id, err = p.Refresh(t.Context(), id.Held)
			}
		})
	}
}

// TestDisabledElsewhere: directories other than Active Directory say in words of their own that an account must not
// be used. They refuse a bind themselves, but who has signed in already is looked up without one.
func TestDisabledElsewhere(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		attribute, value string
		want             string // empty: the account is good
	}{
		"attack 8957: 389 and FreeIPA":     {"nsAccountLock", "TRUE", "is disabled"},
		"attack 8957: 389, in lower case":  {"nsaccountlock", "true", "is disabled"},
		"389, not locked":                  {"nsAccountLock", "FALSE", ""},
		"attack 8957: eDirectory":          {"loginDisabled", "TRUE", "is disabled"},
		"attack 8957: OpenDJ":              {"ds-pwp-account-disabled", "true", "is disabled"},
		"attack 8957: OpenLDAP":            {"pwdAccountLockedTime", "000001010000Z", "is disabled"},
		"OpenLDAP, wrong passwords":        {"pwdAccountLockedTime", "20200101000000Z", ""},
		"attack 8957: OpenLDAP, ended":     {"pwdEndTime", "20200101000000Z", "has expired"},
		"attack 8957: FreeIPA, ended":      {"krbPrincipalExpiration", "20200101000000Z", "has expired"},
		"FreeIPA, goes on":                 {"krbPrincipalExpiration", "29990101000000Z", ""},
		"attack 8957: a time that is none": {"krbPrincipalExpiration", "tomorrow", "has expired"},
		"attack 8957: eDirectory, ended":   {"loginExpirationTime", "20200101000000Z", "has expired"},
		"attack 8957: shadow, ended":       {"shadowExpire", "18000", "has expired"},
		"shadow, goes on":                  {"shadowExpire", "300000", ""},
		"shadow, never":                    {"shadowExpire", "-1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := entries()
			list[1].Attributes[tt.attribute] = []string{tt.value}
			p := open(t, searching(ldaptest.Start(t, ldaptest.Config{Entries: list}).URL))
			_, err := p.Refresh(t.Context(), []byte("11111111-aaaa-4aaa-8aaa-000000000001"))
			_, _, in := signIn(t.Context(), p, "alice", "alice password")
			for does, err := range map[string]error{"Refresh": err, "SignIn": in} {
				if tt.want != "" {
					checkRejected(t, err, tt.want)
				} else if err != nil {
					t.Errorf("%s = %v, want alice", does, err)
				}
			}
		})
	}
}
