package e2e

import (
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// desk is a server with the Caddyfile of the guide to Kerberos, and the realm of its tickets.
func desk(t *testing.T) (*server, *kdc) {
	t.Helper()
	guide := read(t, "../docs/kerberos.md")
	k := startKDC(t, example(t, guide, "The key", "sh"))
	_, block, _ := strings.Cut(example(t, guide, "The Caddyfile", "caddyfile"), "\t\tidp desk kerberos {")
	block, _, found := strings.Cut(block, "\n\t\t}\n")
	if !found {
		t.Fatal("the guide has no block for Kerberos")
	}
	block = strings.NewReplacer("http.keytab", k.keytab, "10.0.0.0/8", "127.0.0.0/8 ::1").Replace(block)
	s := startEdited(t, "", func(caddyfile string) string {
		return strings.Replace(caddyfile, "\n\t\tidentity {", "\n\t\tidp desk kerberos {"+block+"\n\t\t}\n\t\tidentity {", 1)
	})
	return s, k
}

const negotiation = "/kerberos/desk/negotiate"

// asked counts how often a browser came to be asked for a ticket.
func (s *server) asked() int {
	s.t.Helper()
	raw, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(raw)) {
		if strings.Contains(line, `"uri":"`+negotiation) {
			n++
		}
	}
	return n
}

// answers opens the account in a new browser, answers the question for a ticket, and returns the status and the page at
// the end.
func (s *server) answers(t *testing.T, answer string) (int, string) {
	t.Helper()
	v := s.visit(t, "", "")
	resp, answered := v.get(s.Issuer+"/account"), false
	for range 12 {
		if !answered && resp.StatusCode == http.StatusUnauthorized && resp.Header.Get("WWW-Authenticate") == "Negotiate" {
			answered = true
			resp.Body.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, resp.Request.URL.String(), nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", answer)
			resp = v.do(req)
			continue
		}
		if resp.StatusCode/100 != 3 {
			break
		}
		to, err := resp.Location()
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		resp = v.get(to.String())
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !answered {
		t.Fatalf("no question for a ticket: %s %s: %s", resp.Request.URL, resp.Status, raw)
	}
	return resp.StatusCode, string(raw)
}

// signedIn reports whether a page is the account of someone.
func signedIn(page string) bool { return strings.Contains(page, "/account/security") }

// TestKerberosGuide signs people in by tickets of MIT Kerberos, with the commands and the Caddyfile of the guide.
func TestKerberosGuide(t *testing.T) {
	t.Parallel()
	s, k := desk(t)
	k.ticket("ann")
	command := regexp.MustCompile("`curl (.*)`").FindStringSubmatch(read(t, "../docs/kerberos.md"))
	if command == nil {
		t.Fatal("the guide has no command of curl")
	}
	args := strings.Fields(strings.Replace(command[1], "https://auth.example.com", s.Issuer, 1))
	t.Run("curl", func(t *testing.T) {
		if status, page := k.curl(t, "ann", args...); status != "200" || !signedIn(page) {
			t.Errorf("with a ticket: %s %.2000s", status, page)
		}
		if status, page := k.curl(t, "ben", args...); status != "401" || !strings.Contains(page, "No ticket from this computer") {
			t.Errorf("without a ticket: %s %.2000s", status, page)
		}
	})
	t.Run("a browser with a ticket", func(t *testing.T) {
		b := s.browseWith(t, trusting(t, k.env("ann"))...)
		// Chromium on Linux shows no ticket the first time in a new profile. (docs/kerberos.md, "Browsers")
		b.do(chromedp.Navigate(s.Wiki + "/"))
		b.until(`document.querySelector('input[name="password"]')`)
		b.choose("desk")
		b.reaches(s.Wiki + "/")
		if got := b.seen(); got.User != "ann" {
			t.Errorf("the site sees %+v, want ann", got)
		}
		b.forget()
		before := s.asked()
		b.open(s.Wiki + "/")
		b.reaches(s.Wiki + "/")
		if got := b.seen(); got.User != "ann" {
			t.Errorf("without a choice, the site sees %+v, want ann", got)
		}
		if n := s.asked() - before; n < 1 || n > 2 { // without the ticket, unless the browser knows, and with it
			t.Errorf("the browser came %d times to be asked, want 2 at most", n)
		}
	})
	for _, who := range []struct {
		name string
		more []chromedp.ExecAllocatorOption
	}{
		{"a browser without a ticket", trusting(t, k.env("ben"))},
		{
			"a browser that shows its ticket to no server",
			[]chromedp.ExecAllocatorOption{chromedp.ExecPath(program(t, windowed)), chromedp.Env(k.env("ann")...)},
		},
	} {
		t.Run(who.name, func(t *testing.T) {
			before := s.asked()
			b := s.browseWith(t, who.more...)
			b.do(chromedp.Navigate(s.Wiki + "/"))
			b.until(`document.querySelector('input[name="password"]')`)
			if n := s.asked() - before; n != 1 {
				t.Errorf("the browser came %d times to be asked, want 1", n)
			}
			b.signIn(person, s.Password)
			b.reaches(s.Wiki + "/")
			if got := b.seen(); got.User != person {
				t.Errorf("the site sees %+v, want %s", got, person)
			}
		})
	}
	t.Run("attack 742: NTLM", func(t *testing.T) {
		hello := base64.StdEncoding.EncodeToString([]byte("NTLMSSP\x00\x01\x00\x00\x00\x07\x82\x08\xa2\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
		for _, scheme := range []string{"Negotiate ", "NTLM "} {
			if status, page := s.answers(t, scheme+hello); status != http.StatusOK || signedIn(page) || !strings.Contains(page, `name="password"`) {
				t.Errorf("%s: %d %.2000s", scheme, status, page)
			}
		}
		if status, page := k.curl(t, "ann", "--ntlm", "-u", "ann:"+passwordOf("ann"), "-L", s.Issuer+"/account"); signedIn(page) ||
			strings.HasPrefix(status, "5") {
			t.Errorf("curl --ntlm: %s %.2000s", status, page)
		}
	})
	t.Run("attack 744: an answer that was seen on the way, and after a restart", func(t *testing.T) {
		answer := k.seen(t, "ann")
		s.secret("token of Kerberos", strings.TrimPrefix(answer, "Negotiate "))
		if status, page := s.answers(t, answer); status != http.StatusOK || !signedIn(page) {
			t.Fatalf("the first time: %d %.2000s", status, page)
		}
		again := func(when string) {
			t.Helper()
			if status, page := s.answers(t, answer); status != http.StatusBadRequest || signedIn(page) {
				t.Errorf("%s: %d %.2000s", when, status, page)
			}
		}
		again("the second time")
		s.restart()
		again("after a restart")
		if status, page := s.answers(t, k.seen(t, "ann")); status != http.StatusOK || !signedIn(page) {
			t.Errorf("another answer after a restart: %d %.2000s", status, page)
		}
	})
	t.Run("attack 741: a ticket of the service itself", func(t *testing.T) {
		if said, err := k.as("service", "kinit", "-k", "-t", k.keytab, "HTTP/localhost").CombinedOutput(); err != nil {
			t.Fatalf("kinit -k: %v\n%s", err, said)
		}
		if status, page := k.curl(t, "service", args...); status != "200" || signedIn(page) || !strings.Contains(page, `name="password"`) {
			t.Errorf("%s %.2000s", status, page)
		}
	})
	t.Run("attack 3717: a ticket that was asked for without a PAC", func(t *testing.T) {
		k.ticket("ann", "--no-request-pac")
		defer k.ticket("ann")
		if status, page := k.curl(t, "ann", args...); status != "200" || signedIn(page) || !strings.Contains(page, `name="password"`) {
			t.Errorf("%s %.2000s", status, page)
		}
	})
}

var toDesk = regexp.MustCompile(`href="(/sign-in/provider\?[^"]*idp=desk[^"]*)"`)

// TestKerberosMethod signs people in by a method of the configuration API: from the sign-in page, and without a choice
// once auto_login_enabled is set.
func TestKerberosMethod(t *testing.T) {
	t.Parallel()
	k := startKDC(t, example(t, read(t, "../docs/kerberos.md"), "The key", "sh"))
	k.ticket("ann")
	s := startEdited(t, "", func(caddyfile string) string {
		return strings.Replace(caddyfile, "apis introspection", "apis introspection configuration", 1)
	}, "KRB5_KTNAME="+k.keytab)
	set := func(auto bool) {
		t.Helper()
		unit := fmt.Sprintf(`{"login_methods":{"login_methods":[{"id":"desk","name":"Office computer","type":"KERBEROS","enabled":true,"kerberos_attributes":{"auto_login_enabled":%t}}]}}`, auto)
		if status, answer := s.configure(http.MethodPost, "/api/v2/config", unit); status != http.StatusNoContent {
			t.Fatalf("%d %s", status, answer)
		}
	}
	set(false)
	jar := filepath.Join(t.TempDir(), "jar")
	status, page := k.curl(t, "ann", "--negotiate", "-u", ":", "-L", "-c", jar, "-b", jar, s.Issuer+"/account")
	link := toDesk.FindStringSubmatch(page)
	if status != "200" || signedIn(page) || link == nil {
		t.Fatalf("the sign-in page: %s %.4000s", status, page)
	}
	b := s.browseWith(t, trusting(t, k.env("ann"))...)
	b.open(s.Issuer + "/account")
	b.choose("desk")
	b.until(`document.querySelector('a.provider, a[href="/account/security"]')`)
	if !b.has(`a[href="/account/security"]`) { // the first time in a new profile
		b.choose("desk")
		b.until(`document.querySelector('a[href="/account/security"]')`)
	}
	at := s.Issuer + html.UnescapeString(link[1])
	if status, page := k.curl(t, "ann", "--negotiate", "-u", ":", "-L", "-c", jar, "-b", jar, at); status != "200" || !signedIn(page) {
		t.Errorf("from the sign-in page: %s %.2000s", status, page)
	}
	set(true)
	if status, page := k.curl(t, "ann", "--negotiate", "-u", ":", "-L", s.Issuer+"/account"); status != "200" || !signedIn(page) {
		t.Errorf("auto_login_enabled: %s %.2000s", status, page)
	}
}

// trusting are the options of a browser that shows its ticket to localhost. The headless shell shows it to everyone.
func trusting(t *testing.T, env []string) []chromedp.ExecAllocatorOption {
	t.Helper()
	return []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program(t, windowed)), chromedp.Flag("auth-server-allowlist", "localhost"), chromedp.Env(env...),
	}
}
