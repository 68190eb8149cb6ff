package e2e

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestClientLibraries connects libraries that applications use: npm's openid-client, which is certified;
// passport-openidconnect, a confidential client without PKCE that sends its secret in the body; Python's
// requests-oauthlib.
func TestClientLibraries(t *testing.T) {
	t.Parallel()
	for _, l := range []struct {
		name, client string
		command      []string
		consents     bool // the person is asked
		want         string
	}{
		{
			"openid-client", "shop",
			[]string{"node", "node/openid-client.mjs"},
			true,
			"discovery code userinfo introspect refresh introspect_revoked refresh_revoked client_credentials device par logout_url",
		},
		{"passport-openidconnect", "passport", []string{"node", "node/passport-openidconnect.mjs"}, false, "redirect callback replay"},
		{"requests-oauthlib", "shop", []string{"/usr/bin/python3", "python/requests_oauthlib_driver.py"}, true, "code userinfo refresh client_credentials"},
	} {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			if got := drive(t, l.client, l.consents, l.command); got != l.want {
				t.Errorf("%s did %q, want %q", l.name, got, l.want)
			}
		})
	}
}

// drive runs a driver. The driver prints the address where the person must sign in. The test takes a browser there and
// returns the final address to the driver. The result is the list of successful steps.
func drive(t *testing.T, client string, consents bool, command []string) string {
	t.Helper()
	// Its callback fails, because the state is unknown to it; only the address matters.
	_, s := openShop(t)
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...) //nolint:gosec // of the table above
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = environ(s.dir, "ISSUER="+s.Issuer, "CLIENT_ID="+client, "CLIENT_SECRET="+s.ShopSecret, "REDIRECT_URI="+s.Callback,
		"SCOPE=openid profile "+apiScope, "API_CLIENT_ID=ops", "API_CLIENT_SECRET="+s.OpsSecret, "PERSON="+person)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v: make install", command[0], err)
	}
	b := s.browse(t)
	var steps []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "open":
			b.open(rest)
			b.signIn(person, s.Password)
			if consents {
				b.click("button[value=allow]")
			}
			if _, err := in.Write([]byte(b.location() + "\n")); err != nil {
				t.Fatal(err)
			}
		case "go": // signed in, and asked before
			b.open(rest)
			if _, err := in.Write([]byte(b.location() + "\n")); err != nil {
				t.Fatal(err)
			}
		case "device":
			b.open(rest)
			b.click("form[action='/device'] button")
			b.click("button[value=allow]")
		case "secret":
			s.secret("token at "+command[1], rest)
		case "ok":
			steps = append(steps, rest)
		default:
			t.Errorf("%s: %s", command[1], lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", command[1], err, errs.String())
	}
	return strings.Join(steps, " ")
}
