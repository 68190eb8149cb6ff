package integrations

import (
	"strings"
	"testing"
)

// TestFor: the settings of each application are those of the client that they are for: issuer, id, secret and address
// of the guide are nowhere, nor is a sentence about making the client.
func TestFor(t *testing.T) {
	t.Parallel()
	if len(All()) < 25 {
		t.Fatalf("%d guides, want all with a client", len(All()))
	}
	c := Client{
		Issuer: "https://login.firm.example", ID: "my-app", Secret: "the-secret",
		RedirectURIs: []string{"https://app.firm.example/back"},
	}
	for i := range All() {
		g := &All()[i]
		var all strings.Builder
		for _, s := range g.For(c) {
			all.WriteString(s.Text + "\n" + s.Code + "\n")
			for _, r := range s.Rows {
				all.WriteString(r[0] + "\t" + r[1] + "\n")
			}
		}
		text := all.String()
		for _, foreign := range []string{"auth.example.com", hidden, "client add " + g.client, "```", "](", originOf(g.redirects[0])} {
			if strings.Contains(text, foreign) && !strings.HasPrefix(foreign, "http://localhost") {
				t.Errorf("%s has %q:\n%s", g.ID, foreign, text)
			}
		}
		if !strings.Contains(text, c.Issuer) || !strings.Contains(text, c.ID) {
			t.Errorf("%s lacks the issuer or the id of the client:\n%s", g.ID, text)
		}
	}
}

func TestFitting(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, redirect, want string }{
		{"Grafana below another host", "https://graphs.firm.example/login/generic_oauth", "grafana"},
		{"Nextcloud", "https://files.firm.example/apps/user_oidc/code", "nextcloud"},
		{"a path that says nothing", "https://app.firm.example/callback", ""},
		{"no path", "https://app.firm.example", ""},
		{"a private scheme", "app.firm:/back", ""},
	} {
		got := ""
		if g := Fitting([]string{tc.redirect}); g != nil {
			got = g.ID
		}
		if got != tc.want {
			t.Errorf("%s: Fitting(%q) = %q, want %q", tc.name, tc.redirect, got, tc.want)
		}
	}
	if Find("grafana") == nil || Find("sonarr") != nil || Find("none") != nil {
		t.Error("Find finds an application that is no client, or not one that is")
	}
}
