package ldap_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/ldap"
	"github.com/gatehouse-id/gatehouse/idp/ldap/ldaptest"
)

// inetOrgPeople are people as OpenLDAP has them, each with a password of their own.
func inetOrgPeople(names ...string) (out []ldaptest.Entry) {
	for _, name := range names {
		out = append(out, ldaptest.Entry{DN: "uid=" + name + "," + ldaptest.People, Password: name + " password", Attributes: map[string][]string{
			"objectClass": {"inetOrgPerson"}, "uid": {name}, "cn": {name + " Example"}, "sn": {"Example"}, "mail": {name + "@example.com"},
		}})
	}
	return out
}

const bySearch, byTemplate = "by a search", "by a template"

// atOpenLDAP are the two ways in which people are found.
func atOpenLDAP(l *ldaptest.OpenLDAP) map[string]ldap.Config {
	search := searching(l.URL)
	search.Match = "(&(uid=%s)(mail=*))"
	return map[string]ldap.Config{
		bySearch: search, byTemplate: {URLs: []string{l.URL}, Template: "uid=%s," + ldaptest.People, Mapping: search.Mapping},
	}
}

// TestHostileUsernamesAtOpenLDAP: what slapd makes of hostile names is no one, and no one is let in as no one.
func TestHostileUsernamesAtOpenLDAP(t *testing.T) {
	t.Parallel()
	more := []string{
		"", " ", "\x00", "\x00alice", "alice\x00)(uid=*", strings.Repeat("alice", 60), strings.Repeat("*", 256), strings.Repeat("(", 256),
		strings.Repeat(`\2a`, 85), strings.Repeat("é", 256),
		"*)(userPassword=*", "alice)(userPassword=a*", "Alice Example", "cn=alice Example", "аlice", "al\u0131ce", "alice\u202e", "\ufeffalice",
		"\U0001f600", "a\u0300lice", "\xff", "ali\xc0\xaace",
		"alice," + ldaptest.People, "reader", ldaptest.Reader, "entryDN=*", "+", ",", "alice@example.com)(uid=bob",
	}
	for _, how := range []string{bySearch, byTemplate} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			l := ldaptest.StartOpenLDAP(t, inetOrgPeople("alice", "bob", "carol"), ldaptest.Slapd{Logged: true})
			p := open(t, atOpenLDAP(l)[how])
			for _, name := range append(Hostile(), more...) {
				for _, password := range []string{"alice password", ldaptest.ReaderPW, "", "*"} {
					if id, _, err := signIn(t.Context(), p, name, password); !errors.Is(err, idp.ErrCredentials) || id != nil {
						t.Errorf("%q with %q signs in as %+v: %v", name, password, id, err)
					}
				}
			}
			if id, _, err := signIn(t.Context(), p, "carol", "carol password"); err != nil || id.Username != "carol" {
				t.Fatalf("carol is %+v, %v", id, err)
			}
			p.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			judgeLog(t, l.Log(ctx))
		})
	}
}

var (
	bindLine   = regexp.MustCompile(`BIND dn="(.*)" method=`)
	foundLine  = regexp.MustCompile(`SEARCH RESULT tag=101 .*nentries=[1-9]`)
	resultLine = regexp.MustCompile(`op=\d+ RESULT tag=97 err=0 `)
)

// judgeLog wants that slapd has found carol alone, and let in no one but her and the account that searches.
func judgeLog(t *testing.T, log string) {
	t.Helper()
	reader, in := 0, len(resultLine.FindAllString(log, -1))
	for _, m := range bindLine.FindAllStringSubmatch(log, -1) {
		switch {
		case m[1] == ldaptest.Reader:
			reader++
		case m[1] == "" || m[1] == "uid=alice,"+ldaptest.People || m[1] == "uid=bob,"+ldaptest.People:
			t.Errorf("a bind as %q was tried", m[1])
		}
	}
	if found := foundLine.FindAllString(log, -1); len(found) != 1 {
		t.Errorf("searches have found somebody %d times, want once: %q", len(found), found)
	}
	if in != reader+1 {
		t.Errorf("%d binds have succeeded, want those of the account that searches, %d, and one", in, reader)
	}
}

// TestManySignInsAtOpenLDAP is TestManySignIns at a real directory, which counts the connections itself.
func TestManySignInsAtOpenLDAP(t *testing.T) {
	l := ldaptest.StartOpenLDAP(t, inetOrgPeople("alice", "bob"), ldaptest.Slapd{})
	for how, cfg := range atOpenLDAP(l) {
		before, _ := l.Connections(t)
		took := manySignIns(t, cfg, func() (made int) {
			now, _ := l.Connections(t)
			return now - before - 1 // the connection that has asked before
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		open := 1
		for open > 0 && ctx.Err() == nil {
			_, open = l.Connections(t)
		}
		if open > 0 {
			t.Errorf("%s: %d connections are left over at slapd", how, open)
		}
		t.Logf("%s: %d sign-ins, 64 at a time, in %v: %.0f a second", how, *signIns, took.Round(time.Millisecond),
			float64(*signIns)/took.Seconds())
	}
}

// TestRefusalsOfOpenLDAP: what slapd answers when it refers elsewhere or finds too much is an error in words.
func TestRefusalsOfOpenLDAP(t *testing.T) {
	t.Parallel()
	elsewhere := ldaptest.Entry{DN: "ou=elsewhere," + ldaptest.Base, Attributes: map[string][]string{
		"objectClass": {"referral", "extensibleObject"}, "ou": {"elsewhere"}, "ref": {"ldap://ldap.example.com/ou=elsewhere,dc=example,dc=com"},
	}}
	twins := inetOrgPeople("alice", "bob")
	twins[1].Attributes["uid"] = append(twins[1].Attributes["uid"], "alice")
	for name, c := range map[string]struct {
		entries []ldaptest.Entry
		slapd   ldaptest.Slapd
		base    string
		want    string
	}{
		"a base that is elsewhere": {
			append(inetOrgPeople("alice"), elsewhere),
			ldaptest.Slapd{},
			"ou=elsewhere," + ldaptest.Base,
			"refers to another server, which is not followed",
		},
		"below a base is a reference": {append(inetOrgPeople("alice"), elsewhere), ldaptest.Slapd{}, ldaptest.Base, ""},
		"a size limit":                {twins, ldaptest.Slapd{Database: "sizelimit 1"}, ldaptest.People, "at its size limit"},
		"two people of one name":      {twins, ldaptest.Slapd{}, ldaptest.People, "several entries"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := ldaptest.StartOpenLDAP(t, c.entries, c.slapd)
			cfg := searching(l.URL)
			cfg.Base = c.base
			p := open(t, cfg)
			if c.want == "" {
				if id, _, err := signIn(t.Context(), p, "alice", "alice password"); err != nil || id.Username != "alice" {
					t.Errorf("%+v, %v", id, err)
				}
				return
			}
			notPassed(t, p, c.want)
		})
	}
}
