package e2e

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestOpenIDClient lets npm's openid-client, a certified client library, speak to the server. The driver prints the address
// where the person must sign in; the test walks a browser there and hands back where it ended.
func TestOpenIDClient(t *testing.T) {
	t.Parallel()
	_, s := openShop(t) // its callback fails, since the state is not its own; the address is what counts
	cmd := exec.CommandContext(t.Context(), "node", "openid-client.mjs")
	cmd.Dir = "node"
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = environ(s.dir, "ISSUER="+s.Issuer, "CLIENT_ID=shop", "CLIENT_SECRET="+s.ShopSecret, "REDIRECT_URI="+s.Callback,
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
		t.Fatalf("node: %v: make install", err)
	}
	b := s.browse(t)
	var steps []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "open":
			b.open(rest)
			b.signIn(person, s.Password)
			b.click("button[value=allow]")
			if _, err := in.Write([]byte(b.location() + "\n")); err != nil {
				t.Fatal(err)
			}
		case "secret":
			s.secret("token at openid-client", rest)
		case "ok":
			steps = append(steps, rest)
		default:
			t.Errorf("openid-client: %s", lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("openid-client: %v\n%s", err, errs.String())
	}
	want := "discovery code userinfo introspect refresh introspect_revoked refresh_revoked client_credentials logout_url"
	if got := strings.Join(steps, " "); got != want {
		t.Errorf("openid-client did %q, want %q", got, want)
	}
}
