package faults

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// TestNodes: whatever one node has done, the other one knows at the next request.
func TestNodes(t *testing.T) {
	t.Parallel()
	c := startNodes(t, false, "", "")
	a, b := c.list[0], c.list[1]
	ctx := t.Context()

	t.Run("a sign-in begins on one node and ends on the other", func(t *testing.T) {
		for i, way := range [][2]*lab.Server{{a, b}, {b, a}} {
			browser := way[0].NewBrowser()
			verifier, challenge := lab.Challenge()
			page, at := browser.Visit(ctx, way[0].AuthorizeURL(lab.WebClient(i), challenge))
			browser = browser.At(way[1])
			end, to, err := browser.FillIn(ctx, page, at)
			if err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(to)
			if err != nil || u.Query().Get("code") == "" {
				t.Fatalf("the sign-in ended at %s with %d %.300s", to, end.Status, end.Body)
			}
			// What it has given counts on both: the session, and the code, once.
			if _, _, answer := browser.At(way[0]).Code(ctx, lab.WebClient(1-i)); answer.Err != nil {
				t.Errorf("the session at the first node: %v", answer.Err)
			}
			for j, n := range way {
				answer := n.Redeem(ctx, lab.WebClient(i), u.Query().Get("code"), verifier)
				if want := []int{http.StatusOK, http.StatusBadRequest}[j]; answer.Status != want {
					t.Errorf("the code at node %d = %d %s, want %d", j, answer.Status, answer.Body, want)
				}
			}
		}
	})

	t.Run("revoked on one, refused by the other at the next request", func(t *testing.T) {
		for i := range 10 {
			here, there := c.list[i%2], c.list[1-i%2]
			token := here.Issue(ctx).Text("access_token")
			if answer := there.Call(ctx, token); answer.Status != http.StatusOK {
				t.Fatalf("a good token = %d %s", answer.Status, answer.Body)
			}
			if answer := here.Revoke(ctx, lab.MachineID, token); answer.Status != http.StatusOK {
				t.Fatalf("Revoke = %d %s", answer.Status, answer.Body)
			}
			if answer := there.Call(ctx, token, lab.MustNotArrive, "1"); answer.Status != http.StatusUnauthorized {
				t.Errorf("a token that the other node has revoked = %d", answer.Status)
			}
		}
	})

	t.Run("a stream on one ends when its token is revoked on the other", func(t *testing.T) {
		token := a.Issue(ctx).Text("access_token")
		stream, err := b.OpenTunnel(token)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		if err := stream.Say("still there?"); err != nil {
			t.Fatal(err)
		}
		a.Revoke(ctx, lab.MachineID, token)
		took, ok := eventually(ctx, 10*time.Second, func() bool { return stream.Say("still there?") != nil })
		if !ok {
			t.Error("the stream is open ten seconds after the revocation")
		}
		t.Logf("the stream ended %d ms after the revocation", took.Milliseconds()) // within a second on a machine with time
	})

	t.Run("uses are counted together", func(t *testing.T) {
		token := c.limited(ctx, "scarce").Text("access_token")
		for i := range scarce + 2 {
			want := http.StatusOK
			if i >= scarce {
				want = http.StatusUnauthorized
			}
			if answer := c.list[i%2].Call(ctx, token); answer.Status != want {
				t.Errorf("use %d = %d, want %d", i+1, answer.Status, want)
			}
		}
	})

	t.Run("a refresh token that was spent on one ends the grant on the other", func(t *testing.T) {
		code, verifier, answer := c.workers[0].browsers[0].Code(ctx, "raced")
		form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {lab.Callback}, "code_verifier": {verifier}}
		first := c.token(ctx, a, form)
		if first.Status != http.StatusOK {
			t.Fatalf("the code = %d %s (%v)", first.Status, first.Body, answer.Err)
		}
		refresh := func(n *lab.Server, from lab.Answer) lab.Answer {
			return c.token(ctx, n, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {from.Text("refresh_token")}})
		}
		second := refresh(b, first)
		third := refresh(a, second)
		if second.Status != http.StatusOK || third.Status != http.StatusOK {
			t.Fatalf("refresh = %d, %d", second.Status, third.Status)
		}
		if again := refresh(b, first); again.Status != http.StatusBadRequest { // its successor is spent: it was stolen
			t.Errorf("a refresh token of long ago = %d %s", again.Status, again.Body)
		}
		if answer := a.Call(ctx, third.Text("access_token"), lab.MustNotArrive, "1"); answer.Status != http.StatusUnauthorized {
			t.Errorf("a token of the grant that was ended = %d", answer.Status)
		}
	})

	t.Run("wrong passwords are counted together", func(t *testing.T) {
		try := func(n *lab.Server, right bool) lab.Answer {
			browser := n.NewBrowser()
			browser.Person = lab.Person(1)
			_, challenge := lab.Challenge()
			page, at := browser.Visit(ctx, n.AuthorizeURL(lab.WebClient(0), challenge))
			form, err := lab.SignInForm(page.Body)
			if err != nil {
				t.Fatal(err)
			}
			form.Values.Set(form.Username, lab.Person(1))
			form.Values.Set(form.Password, "wrong")
			if right {
				form.Values.Set(form.Password, n.Password)
			}
			answer, _ := browser.Submit(ctx, at, form)
			return answer
		}
		for i := range 7 {
			try(c.list[i%2], false)
		}
		for i, n := range c.list {
			if answer := try(n, true); answer.Status != http.StatusTooManyRequests {
				t.Errorf("the right password at node %d after seven wrong ones at both = %d", i, answer.Status)
			}
		}
	})

	t.Run("one has the keys of the other", func(t *testing.T) {
		keys := func(n *lab.Server) string { return string(n.Get(ctx, n.Issuer()+"/oauth/jwks").Body) }
		if keys(a) != keys(b) || !strings.Contains(keys(a), `"kid"`) {
			t.Errorf("keys %s and %s", keys(a), keys(b))
		}
		code, verifier, _ := c.workers[1].browsers[0].Code(ctx, lab.WebClient(1))
		header, _, _ := strings.Cut(a.Redeem(ctx, lab.WebClient(1), code, verifier).Text("id_token"), ".")
		var h struct {
			KID string `json:"kid"`
		}
		raw, err := base64.RawURLEncoding.DecodeString(header)
		if err != nil || json.Unmarshal(raw, &h) != nil || !strings.Contains(keys(b), fmt.Sprintf("%q", h.KID)) {
			t.Errorf("the other node has no key %q of an ID token", h.KID)
		}
	})

	t.Run("a setting of one holds on the other", func(t *testing.T) {
		out, err := a.Command(ctx, `{"features": {"login_enabled": false}}`, "config", "import", "-")
		if err != nil {
			t.Fatal(err, out)
		}
		_, _, err = b.NewBrowser().SignIn(ctx, lab.WebClient(0))
		if err == nil {
			t.Error("the other node lets people sign in")
		}
		if out, err := b.Command(ctx, `{"features": {"login_enabled": true}}`, "config", "import", "-"); err != nil {
			t.Fatal(err, out)
		}
		if _, _, err = a.NewBrowser().SignIn(ctx, lab.WebClient(0)); err != nil {
			t.Errorf("sign-in is on again, and refused: %v", err)
		}
	})

	t.Run("a session that one ends is over on the other", func(t *testing.T) {
		browser := a.NewBrowser()
		if _, _, err := browser.SignIn(ctx, lab.WebClient(0)); err != nil {
			t.Fatal(err)
		}
		if _, _, answer := browser.At(b).Code(ctx, lab.WebClient(0)); answer.Err != nil {
			t.Fatal(answer.Err)
		}
		if out, err := a.Command(ctx, "", "person", "sign-out", lab.Username); err != nil {
			t.Fatal(err, out)
		}
		if code, _, _ := browser.At(b).Code(ctx, lab.WebClient(0)); code != "" {
			t.Error("a browser whose person was signed out gets a code at the other node")
		}
	})

	if out, err := b.Command(ctx, "", "nodes"); err != nil || !strings.Contains(out, "2 servers") {
		t.Errorf("nodes = %s %v", out, err)
	}
	if n := c.Echo.Forbidden.Load(); n > 0 {
		t.Errorf("%d requests arrived that must not", n)
	}
	c.events(ctx, "at the end")
}
