package provider_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/idp/kerberos/kerberostest"
)

// negotiating answers as the browser of a computer does that has a ticket: once it is asked.
type negotiating struct {
	http.RoundTripper

	token func() []byte
	asked atomic.Int32
}

func (n *negotiating) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := n.RoundTripper.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") != "Negotiate" {
		return resp, err
	}
	n.asked.Add(1)
	resp.Body.Close()
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Negotiate "+base64.StdEncoding.EncodeToString(n.token()))
	return n.RoundTripper.RoundTrip(r)
}

// withTicket is a browser of a computer with tickets of a person.
func withTicket(s *servertest.Server, o kerberostest.Ticket) (*servertest.Browser, *negotiating) {
	s.T.Helper()
	b := servertest.NewBrowser(s.T)
	n := &negotiating{RoundTripper: servertest.Patient{Transport: s.Transport}, token: func() []byte { return o.Token(s.T) }}
	b.Client.Transport = n
	return b, n
}

// desk is a server with a realm, and the service that tickets are for.
func desk(t *testing.T, more string) (s *servertest.Server, service string) {
	t.Helper()
	s = servertest.NewServer(t)
	u, err := url.Parse(s.Issuer())
	if err != nil {
		t.Fatal(err)
	}
	service = "HTTP/" + u.Hostname()
	file := filepath.Join(t.TempDir(), "http.keytab")
	if err := os.WriteFile(file, kerberostest.Keytab(t, service), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Site = "protect {\n\t\tlogin\n\t\theaders Remote-User username\n\t}\n\trespond `[{http.request.header.Remote-User}]`"
	s.Extra = "\nidp desk kerberos {\n\tkeytab " + file + "\n\tname \"Desk computers\"\n\tmap name username\n\t" + more + "\n}\n"
	s.MustLoad()
	return s, service
}

// TestTicket: someone whose computer has a ticket opens a site without typing anything, and others see the sign-in
// page.
func TestTicket(t *testing.T) {
	s, service := desk(t, "networks 127.0.0.0/8 ::1\n\tauto on")
	site := "http://" + s.API + "/"
	ann := kerberostest.Ticket{Name: "ann", Realm: kerberostest.Realm, Service: service, Ends: time.Hour}
	b, _ := withTicket(s, ann)
	if page, body := b.Open(site); page.StatusCode != http.StatusOK || body != "[ann]" {
		t.Fatalf("with a ticket: %s: %d %s", page.Request.URL, page.StatusCode, body)
	}
	t.Run("without a ticket", func(t *testing.T) {
		b := servertest.NewBrowser(t)
		page, body := b.Open(site)
		to, ok := strings.CutPrefix(page.Header.Get("Refresh"), "0; url=")
		if page.StatusCode != http.StatusUnauthorized || page.Header.Get("WWW-Authenticate") != "Negotiate" || !ok ||
			!strings.Contains(body, "No ticket from this computer") {
			t.Fatalf("%s: %d %v\n%s", page.Request.URL, page.StatusCode, page.Header, body)
		}
		page, body = b.Open(s.Issuer() + to)
		if page.StatusCode != http.StatusOK || !strings.Contains(body, `name="password"`) || !strings.Contains(body, "Desk computers") {
			t.Errorf("the page behind it: %d %s", page.StatusCode, body)
		}
	})
	t.Run("attack 741: an answer that was seen on the way, in another browser", func(t *testing.T) {
		token := ann.Token(t)
		first, n := withTicket(s, ann)
		n.token = func() []byte { return token }
		if page, body := first.Open(site); page.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", page.StatusCode, body)
		}
		second, n := withTicket(s, ann)
		n.token = func() []byte { return token }
		if page, body := second.Open(site); page.StatusCode != http.StatusBadRequest || n.asked.Load() != 1 || strings.Contains(body, "[ann") {
			t.Errorf("the same token again: %d %s", page.StatusCode, body)
		}
	})
	t.Run("attack 742: NTLM is not asked again and again", func(t *testing.T) {
		b, n := withTicket(s, ann)
		n.token = func() []byte { return []byte("NTLMSSP\x00\x01\x00\x00\x00") }
		page, body := b.Open(site)
		if page.StatusCode != http.StatusOK || !strings.Contains(body, `name="password"`) || n.asked.Load() != 1 ||
			page.Header.Get("WWW-Authenticate") != "" {
			t.Errorf("%d, asked %d times, want the other ways to sign in: %s", page.StatusCode, n.asked.Load(), body)
		}
	})
	t.Run("attack 741: a blocked person stays out", func(t *testing.T) {
		s.Run("", "person", "block", "ann")
		b, _ := withTicket(s, ann)
		if page, body := b.Open(site); page.StatusCode != http.StatusForbidden {
			t.Errorf("%d %s", page.StatusCode, body)
		}
	})
	if out := s.Run("", "idp", "test", "desk"); !strings.Contains(out, "EXAMPLE.COM") {
		t.Errorf("idp test: %s", out)
	}
}

// TestTicketNetworks: browsers elsewhere are neither asked nor believed.
func TestTicketNetworks(t *testing.T) {
	s, service := desk(t, "networks 192.0.2.0/24\n\tauto on")
	b, n := withTicket(s, kerberostest.Ticket{Name: "ann", Realm: kerberostest.Realm, Service: service, Ends: time.Hour})
	page, body := b.Open("http://" + s.API + "/")
	if page.StatusCode != http.StatusOK || strings.Contains(body, "Desk computers") || n.asked.Load() != 0 {
		t.Errorf("%d, asked %d times: %s", page.StatusCode, n.asked.Load(), body)
	}
}

// TestTicketWithoutPAC: a ticket without a PAC is taken where the operator says so, and nowhere else.
func TestTicketWithoutPAC(t *testing.T) {
	for option, want := range map[string]string{"": `name="password"`, "\n\twithout_pac on": "[ann]"} {
		s, service := desk(t, "networks 127.0.0.0/8 ::1\n\tauto on"+option)
		b, _ := withTicket(s, kerberostest.Ticket{
			Name: "ann", Realm: kerberostest.Realm, Service: service, Ends: time.Hour, PACs: []kerberostest.PAC{},
		})
		if page, body := b.Open("http://" + s.API + "/"); page.StatusCode != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("attack 3717: with %q: %d %s, want %s", option, page.StatusCode, body, want)
		}
	}
}

// TestKerberosMethod: a method of the configuration API has the keys of the machine.
func TestKerberosMethod(t *testing.T) {
	t.Setenv("KRB5_KTNAME", filepath.Join(t.TempDir(), "machine.keytab"))
	s := servertest.Configured(t, "")
	s.MustLoad()
	method := servertest.Decode[any](t,
		`{"login_methods":{"login_methods":[{"id":"k","name":"Desk computers","type":"KERBEROS","enabled":true,"kerberos_attributes":{"auto_login_enabled":true}}]}}`)
	if body := s.MustCall("POST", "/api/v2/config", method, http.StatusBadRequest); !strings.Contains(body, "KRB5_KTNAME") {
		t.Errorf("without a keytab: %s", body)
	}
	u, err := url.Parse(s.Issuer())
	if err != nil {
		t.Fatal(err)
	}
	service := "HTTP/" + u.Hostname()
	if err := os.WriteFile(os.Getenv("KRB5_KTNAME"), kerberostest.Keytab(t, service), 0o600); err != nil {
		t.Fatal(err)
	}
	s.MustCall("POST", "/api/v2/config", method, http.StatusNoContent)
	b, n := withTicket(s, kerberostest.Ticket{Name: "ann", Realm: kerberostest.Realm, Service: service, Ends: time.Hour})
	if page, body := b.Open(s.Issuer() + "/account"); page.StatusCode != http.StatusOK || n.asked.Load() != 1 ||
		!strings.Contains(body, "/account/security") {
		t.Errorf("%d, asked %d times: %s", page.StatusCode, n.asked.Load(), body)
	}
}

// TestKerberosMethodKeytab: a method of the configuration API has the keys of a keytab that was uploaded. The keytab of
// the machine is not read.
func TestKerberosMethodKeytab(t *testing.T) {
	t.Setenv("KRB5_KTNAME", filepath.Join(t.TempDir(), "none.keytab"))
	s := servertest.Configured(t, "")
	s.MustLoad()
	u, err := url.Parse(s.Issuer())
	if err != nil {
		t.Fatal(err)
	}
	service := "HTTP/" + u.Hostname()
	ann := kerberostest.Ticket{Name: "ann", Realm: kerberostest.Realm, Service: service, Ends: time.Hour}
	keytab := func(services ...string) any {
		raw := base64.StdEncoding.EncodeToString(kerberostest.Keytab(t, services...))
		return map[string]any{"key_pair": map[string]any{"name": "tickets", "key_type": "KEYTAB", "private_key": raw, "public_key": ""}}
	}
	added := servertest.Decode[struct{ ID string }](t, s.MustCall("POST", "/v2/config/certificates", keytab(service), http.StatusOK))
	method := servertest.Decode[any](t,
		`{"login_methods":{"login_methods":[{"id":"k","name":"Desk computers","type":"KERBEROS","enabled":true,"kerberos_attributes":{"keytab_id":"tickets","auto_login_enabled":true}}]}}`)
	s.MustCall("POST", "/api/v2/config", method, http.StatusNoContent)
	open := func() (asked int32, body string) {
		t.Helper()
		b, n := withTicket(s, ann)
		page, body := b.Open(s.Issuer() + "/account")
		if page.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", page.StatusCode, body)
		}
		return n.asked.Load(), body
	}
	if asked, body := open(); asked != 1 || !strings.Contains(body, "/account/security") {
		t.Errorf("asked %d times: %s", asked, body)
	}
	if out := s.Run("", "idp", "test", "k"); !strings.Contains(out, "EXAMPLE.COM") {
		t.Errorf("idp test: %s", out)
	}
	// With a keytab of another principal no ticket could be read: the method is off, and the other ways are there.
	s.MustCall("POST", "/v2/config/certificates/"+added.ID, keytab("HTTP/elsewhere.example.com"), http.StatusOK)
	if asked, body := open(); asked != 0 || !strings.Contains(body, `name="password"`) || strings.Contains(body, "Desk computers") {
		t.Errorf("with the keytab of another principal: asked %d times: %s", asked, body)
	}
	s.MustCall("POST", "/v2/config/certificates/"+added.ID, keytab("HTTP/elsewhere.example.com", service), http.StatusOK)
	if asked, body := open(); asked != 1 || !strings.Contains(body, "/account/security") {
		t.Errorf("with the next keytab: asked %d times: %s", asked, body)
	}
	if resp, body := s.Call("DELETE", "/v2/config/certificates/"+added.ID, nil); resp.StatusCode != http.StatusConflict {
		t.Errorf("removed while it is in use: %d %s", resp.StatusCode, body)
	}
}

// TestKerberosGuide: the Caddyfile of the guide is accepted.
func TestKerberosGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/kerberos.md")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "http.keytab")
	if err := os.WriteFile(file, kerberostest.Keytab(t, "HTTP/auth.example.com"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(guide), "```caddyfile\n")
	text, _, _ = strings.Cut(text, "```")
	if err := servertest.ValidateCaddyfile(t, strings.Replace(text, "http.keytab", file, 1)); err != nil {
		t.Error(err)
	}
}
