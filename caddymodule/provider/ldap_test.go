package provider_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/idp/ldap/ldaptest"
)

// annInDirectory is a directory with Ann in the group staff.
func annInDirectory() ldaptest.Config {
	return ldaptest.Config{TLS: true, Entries: []ldaptest.Entry{
		{DN: ldaptest.People, Attributes: map[string][]string{"ou": {"people"}}},
		{DN: "uid=ann," + ldaptest.People, Password: "ann password", Attributes: map[string][]string{
			"uid": {"ann"}, "cn": {"Ann Example"}, "mail": {"ann@example.com"}, "entryUUID": {"33333333-aaaa-4aaa-8aaa-000000000001"},
			"memberOf": {"cn=staff,ou=groups," + ldaptest.Base}, "department": {"Research"},
		}},
	}}
}

// toDirectory goes from the sign-in page to the form of a directory.
func toDirectory(s *servertest.Server, b *servertest.Browser, body string) (*http.Response, string) {
	s.T.Helper()
	_, link, ok := strings.Cut(body, `href="/sign-in/provider?`)
	if !ok {
		s.T.Fatalf("no directory is offered: %s", body)
	}
	link, _, _ = strings.Cut(link, `"`)
	return b.Open(s.Issuer() + "/sign-in/provider?" + strings.ReplaceAll(link, "&amp;", "&"))
}

// TestDirectory walks Ann through a site for the group that she is in at the directory.
func TestDirectory(t *testing.T) {
	directory := ldaptest.Start(t, annInDirectory())
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, directory.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LDAP_PASSWORD", ldaptest.ReaderPW)
	s := servertest.NewServer(t)
	s.Site = "protect {\n\t\tlogin\n\t\tgroups crew\n\t\theaders Remote-User username\n\t\theaders Remote-Groups groups\n\t}\n\trespond `[{http.request.header.Remote-User}] [{http.request.header.Remote-Groups}]`"
	idp := func(more string) string {
		return `
		idp staff ldap {
			url ` + directory.URL + `
			ca ` + ca + `
			bind ` + ldaptest.Reader + ` {env.LDAP_PASSWORD}
			base ` + ldaptest.People + `
			name Staff directory
			map uid username
			groups {
				map staff crew
			}
			` + more + `
		}`
	}
	s.Extra = idp("")
	s.MustLoad()
	site := "http://" + s.API + "/"
	walk := func() (*http.Response, string) {
		b := servertest.NewBrowser(t)
		_, body := b.Open(site)
		page, body := toDirectory(s, b, body)
		return b.Submit(page, body, url.Values{"username": {"ann"}, "password": {"ann password"}})
	}
	if page, body := walk(); page.Request.URL.String() != site || body != "[ann] [crew]" {
		t.Errorf("ended at %s: %d %s", page.Request.URL, page.StatusCode, body)
	}
	if out := s.Run("", "check"); strings.Contains(out, "staff") && !strings.Contains(out, "ok") {
		t.Errorf("check: %s", out)
	}
	t.Run("attack 128: another network, whatever a header says", func(t *testing.T) {
		s.Extra = idp("networks 192.0.2.0/24")
		s.MustLoad()
		b := servertest.NewBrowser(t)
		b.Client.Transport = marking{
			servertest.Patient{Transport: s.Transport},
			map[string]string{"X-Forwarded-For": "192.0.2.7", "Forwarded": "for=192.0.2.7", "X-Real-Ip": "192.0.2.7"},
		}
		page, body := b.Open(site)
		if strings.Contains(body, "Staff directory") {
			t.Errorf("the directory is offered: %s", body)
		}
		flow := page.Request.URL.Query().Get("flow")
		page, body = b.Open(s.Issuer() + "/sign-in/provider?" + url.Values{"flow": {flow}, "idp": {"staff"}}.Encode())
		if page.StatusCode != http.StatusForbidden || !strings.Contains(body, "sign in this way from here") {
			t.Errorf("%d %s", page.StatusCode, body)
		}
		s.Extra = idp("networks 127.0.0.1 ::1")
		s.MustLoad()
		if page, body := walk(); body != "[ann] [crew]" {
			t.Errorf("from the network: %d %s", page.StatusCode, body)
		}
	})
	t.Run("a directory that is gone", func(t *testing.T) {
		directory.Stop()
		page, body := walk()
		if page.StatusCode != http.StatusBadGateway || !strings.Contains(body, "Staff directory isn’t responding") {
			t.Errorf("%d %s", page.StatusCode, body)
		}
	})
}

// TestDirectoriesThatFailInWords: people see one page when a directory does not work, whatever the reason, and the log
// has the reason.
func TestDirectoriesThatFailInWords(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = remoteSite
	file := filepath.Join(t.TempDir(), "log")
	s.Options = "log {\n\t\toutput file " + file + "\n\t}"
	t.Setenv("LDAP_PASSWORD", ldaptest.ReaderPW)
	answers := func(code int64) ldaptest.Config {
		cfg := annInDirectory()
		cfg.TLS, cfg.Search = false, func(string, string) int64 { return code }
		return cfg
	}
	cases := map[string]struct {
		directory ldaptest.Config
		status    int
		log       string
		option    string // a short timeout for what never answers alone: on a busy machine the others take their time
	}{
		"referral": {
			answers(10), http.StatusBadGateway,
			"the directory refers to another server, which is not followed: name that server in url", "",
		},
		"limit": {
			answers(4), http.StatusBadGateway,
			"the directory ends the search at its size limit: make base or match narrower, or raise the limit", "",
		},
		"half-open": {ldaptest.Config{Silent: true}, http.StatusGatewayTimeout, "does not answer in time", "timeout 500ms"},
	}
	for id, c := range cases {
		s.Extra += `
		idp ` + id + ` ldap {
			url ` + ldaptest.Start(t, c.directory).URL + `
			bind ` + ldaptest.Reader + ` {env.LDAP_PASSWORD}
			base ` + ldaptest.People + `
			name "Directory ` + id + `"
			` + c.option + `
		}`
	}
	s.MustLoad()
	for id, c := range cases {
		b := servertest.NewBrowser(t)
		page, _ := b.Open("http://" + s.API + "/")
		page, body := b.Open(s.Issuer() + "/sign-in/provider?" + url.Values{"flow": {page.Request.URL.Query().Get("flow")}, "idp": {id}}.Encode())
		page, body = b.Submit(page, body, url.Values{"username": {"ann"}, "password": {"ann password"}})
		if page.StatusCode != c.status || !strings.Contains(body, "Directory "+id+" isn’t responding") || strings.Contains(body, c.log) ||
			!strings.Contains(body, "Try again") || !strings.Contains(body, `href="/sign-in?`) {
			t.Errorf("%s: %d %s", id, page.StatusCode, body)
		}
		log, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(log), c.log) || strings.Contains(string(log), "ann password") {
			t.Errorf("%s: the log does not say %q, or says what is secret: %v %s", id, c.log, err, log)
		}
	}
}

// TestDirectoryByAPI signs people in by a login method of the type LDAP, and refuses one that cannot work.
func TestDirectoryByAPI(t *testing.T) {
	cfg := annInDirectory()
	cfg.TLS = false
	directory := ldaptest.Start(t, cfg)
	s := servertest.Configured(t, "outbound {\n allow 127.0.0.0/8\n}")
	s.Site = remoteSite
	s.MustLoad()
	method := func(members string) any {
		return servertest.Decode[any](t,
			`{"login_methods":{"login_methods":[{"id":"staff","name":"Staff directory","type":"LDAP","enabled":true,"auto_email_verification":true,`+
				`"attribute_mappings":[{"id":"1","map_from":"uid","map_to":"username"},{"id":"2","map_from":"mail","map_to":"email"}],"ladp_attributes":{`+members+`}}]}}`)
	}
	search := fmt.Sprintf(`"server_urls":"%s","base_suffix":"%s","user_distinguished_name":"%s","password":"%s","attributes_to_be_fetched":["department"]`,
		directory.URL, ldaptest.People, ldaptest.Reader, ldaptest.ReaderPW)
	for members, want := range map[string]string{
		``: "server_urls", `"server_urls":"https://x.example"`: "not the address", `"server_urls":"ldaps://x.example"`: "name an account",
		search + `,"match_pattern":"(uid=*)"`: "everybody", search + `,"ip_range_enabled":true`: "ip_ranges",
		search + `,"authentication_dn_template":"uid=%s,dc=x"`: "keep one",
	} {
		if body := s.MustCall(http.MethodPost, "/api/v2/config", method(members), http.StatusBadRequest); !strings.Contains(body, want) {
			t.Errorf("%s: %s, want %q", members, body, want)
		}
	}
	walk := func() (*http.Response, string) {
		b := servertest.NewBrowser(t)
		_, body := b.Open("http://" + s.API + "/")
		page, body := toDirectory(s, b, body)
		return b.Submit(page, body, url.Values{"username": {"ann"}, "password": {"ann password"}})
	}
	for name, members := range map[string]string{
		"a search":   search,
		"a template": fmt.Sprintf(`"server_urls":"%s","authentication_dn_template":"uid=%%s,%s"`, directory.URL, ldaptest.People),
		"a network":  search + `,"ip_range_enabled":true,"ip_ranges":["127.0.0.0/8","::1"]`,
		"two servers, the first of them somewhere that is not opened": strings.Replace(search, directory.URL,
			"ldap://10.0.0.1, "+directory.URL, 1),
	} {
		s.MustCall(http.MethodPost, "/api/v2/config", method(members), http.StatusNoContent)
		if page, body := walk(); body != "[ann] [ann@example.com]" {
			t.Errorf("%s: %d %s", name, page.StatusCode, body)
		}
	}
	s.MustCall(http.MethodPost, "/api/v2/config", method(search+`,"ip_range_enabled":true,"ip_ranges":["192.0.2.0/24"]`), http.StatusNoContent)
	if page := s.SignInPage(); strings.Contains(page, "Staff directory") {
		t.Errorf("it is offered elsewhere: %s", page)
	}
	t.Run("attack 264: a directory in our own network", func(t *testing.T) {
		s := servertest.Configured(t, "")
		s.Site = remoteSite
		s.MustLoad()
		s.MustCall(http.MethodPost, "/api/v2/config", method(search), http.StatusNoContent)
		made, _, _ := directory.Connections()
		b := servertest.NewBrowser(t)
		_, body := b.Open("http://" + s.API + "/")
		page, body := toDirectory(s, b, body)
		if page, body := b.Submit(page, body,
			url.Values{"username": {"ann"}, "password": {"ann password"}}); page.StatusCode != http.StatusBadGateway {
			t.Errorf("%d %s", page.StatusCode, body)
		}
		if now, _, _ := directory.Connections(); now != made {
			t.Error("a connection was made")
		}
	})
}
