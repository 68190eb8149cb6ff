package explain_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// A policy of the global block holds at the sites that name it, and a reload changes it at once.
func TestPolicies(t *testing.T) {
	w := servertest.NewWalk(t)
	config, site := w.Config, "http://"+servertest.FreeAddr(t)
	w.Extra = `policy office {
			deny {
				name    archive
				match   path /archive/*
				need    person demo@example.com
				message "The archive is closed until Monday."
			}
			allow {
				match path /reports/* /archive/*
				need  groups staff
			}
			allow {
				match path /vault/*
				need  level 3
			}
			public /healthz
		}`
	w.Config = func() string {
		return config() + fmt.Sprintf("\n%s {\n\tprotect {\n\t\tlogin\n\t\tpolicy office\n\t\tallow {\n\t\t\tmatch path /own\n\t\t}\n\t}\n\trespond \"inside\"\n}\n", site)
	}
	w.Reload()
	b := servertest.NewBrowser(t)
	if res, _ := b.Open(site + "/nothing"); res.StatusCode != http.StatusForbidden || len(b.Hops) != 0 {
		t.Errorf("a stranger where no rule is: %d by way of %q, want a refusal without a sign-in that would not help", res.StatusCode, b.Hops)
	}
	if _, body := b.Open(site + "/healthz"); body != "inside" {
		t.Errorf("the public path of the policy: %s", body)
	}
	if res, body := b.SignIn(site + "/reports/2026"); body != "inside" || res.Request.URL.String() != site+"/reports/2026" {
		t.Fatalf("after sign-in: %d at %s: %s", res.StatusCode, res.Request.URL, body)
	}
	if _, body := b.Open(site + "/own"); body != "inside" {
		t.Errorf("what the site's own rule allows: %s", body)
	}
	if res, body := b.Open(site + "/archive/1999"); res.StatusCode != http.StatusForbidden ||
		!strings.Contains(body, "The archive is closed until Monday.") {
		t.Errorf("what a rule refuses: %d, %s", res.StatusCode, body)
	}
	if res, body := b.Open(site + "/vault/x"); strings.Contains(body, "inside") || !strings.HasPrefix(res.Request.URL.String(), w.Issuer()) {
		t.Errorf("a rule with a level leads to %s, want the issuer", res.Request.URL)
	}
	w.Extra = "policy office {\n\t\t\tallow {\n\t\t\t\tneed groups admins\n\t\t\t}\n\t\t}"
	w.Reload()
	servertest.Eventually(t, "a refusal after the policy has changed",
		func() bool { // a connection that was open can get one more answer of before
			res, _ := b.Open(site + "/reports/2026")
			return res.StatusCode == http.StatusForbidden
		})
	log, err := os.ReadFile(w.Log)
	if err != nil || !strings.Contains(string(log), "rule: archive") {
		t.Errorf("the log does not name the rule (%v)", err)
	}
}

// What is probably not meant in rules is said before anybody is refused, or let in.
func TestPolicyFindings(t *testing.T) {
	s := servertest.NewServer(t)
	s.Extra = `policy office {
			deny {
				match path /assets/private/*
				need  groups guests
			}
			allow {
				match path /x
			}
			allow {
				name late
				match path /x
				need groups staf
			}
			public /assets/*
		}`
	s.Site = "protect orders.read {\n\t\tpolicy office\n\t}"
	s.MustLoad()
	s.WantFinding("warning Caddyfile:", "is open to everybody by public /assets/*", "leave the path out of public")
	s.WantFinding("warning Caddyfile:", "late is never reached, since the rule at Caddyfile:", "put the narrower rule first")
	s.WantFinding("warning Caddyfile:", `no one in the configuration is in the group "staf"`, `did you mean "staff"?`)
	s.Site = "protect orders.read {\n\t\tpolicy offices\n\t}"
	s.MustLoad()
	s.WantFinding("warning Caddyfile:", "the policy offices is not in the Caddyfile: until the configuration API has it, the site http://"+
		s.API+" refuses everybody", `did you mean "office"?`)
	if got := s.Enters(s.Token()); got != http.StatusForbidden {
		t.Errorf("a site with a policy that does not exist answers %d, want 403", got)
	}
}
