package cli_test

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestPersonAdministration: an operator finds, shows, changes, signs out and unlocks persons by command.
func TestPersonAdministration(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	for _, name := range []string{"ada@example.com", "alan", "grace"} {
		s.Run("the password of "+name+"\n", "person", "add", name, "--groups", "staff", "--name", "Person "+name)
	}
	if out := s.Run("", "person", "find", "GRACE"); !strings.HasPrefix(out, "USERNAME") || !strings.Contains(out, "grace") ||
		!strings.HasSuffix(out, "\n1 person\n") {
		t.Errorf("person find = %s, want a header, grace and 1 person", out)
	}
	if out := s.Run("", "person", "list", "--group", "staff", "--limit", "2"); !strings.Contains(out, "2 people\nThere are more") ||
		strings.Contains(out, "grace") {
		t.Errorf("person list --limit 2 = %s", out)
	}
	if out := s.Run("", "person", "list", "--state", "blocked"); out != "0 people\n" {
		t.Errorf("person list --state blocked = %q", out)
	}
	s.Refused("no person adaa; did you mean ada@example.com?", "", "person", "show", "adaa")
	s.Refused("no person allan; did you mean alan?", "", "person", "block", "allan")
	s.Refused("is negative", "", "person", "list", "--limit", "-1")
	s.Refused("nothing to change", "", "person", "set", "alan")

	s.Run("", "person", "set", "alan", "--name", "Alan Turing", "--email", "alan@example.com", "--email-verified")
	s.Refused("locale", "", "person", "set", "alan", "--locale", "nowhere land")
	if out := s.Run("", "person", "show", "alan"); !strings.Contains(out, "Alan Turing") ||
		!strings.Contains(out, "alan@example.com (verified)") || !strings.Contains(out, "signs in with  password") {
		t.Errorf("person show = %s", out)
	}
	s.Run("", "person", "set", "alan", "--email", "Alan@Example.com")
	shown := servertest.Decode[map[string]any](t, s.Run("", "person", "show", "alan", "--json"))
	if shown["email"] != "Alan@Example.com" {
		t.Errorf("e-mail address = %v, want it as it was typed", shown["email"])
	}
	if shown["has_password"] != true || shown["email_verified"] != true || shown["state"] != "ACTIVE" {
		t.Errorf("person show --json = %v", shown)
	}
	if out := s.Run("", "person", "unlock", "alan"); out != "alan has no failed sign-ins\n" {
		t.Errorf("person unlock = %q", out)
	}
	s.Run("", "person", "sign-out", "alan")
	s.Run("", "person", "remove", "alan")
	s.Refused("no person alan", "", "person", "sign-out", "alan")

	list := s.Run("", "events", "list", "--since", "today", "--type", "session.", "--person", "ada@example.com")
	if list != "0 events\n" {
		t.Errorf("events list of ada's sessions = %s", list)
	}
	list = s.Run("", "events", "list", "--since", "1h", "--type", "person.PersonCreated")
	if n := strings.Count(list, "Person Created"); n != 4 || !strings.HasSuffix(list, "4 events\n") {
		t.Errorf("events list = %s, want the 3 of this test and the one of the configuration", list)
	}
	events := servertest.Decode[[]map[string]any](t, s.Run("", "events", "list", "--json", "--limit", "1"))
	if len(events) != 1 || events[0]["event_type"] != "person.PersonRemovedEvent" {
		t.Errorf("events list --limit 1 = %v, want the newest", events)
	}
	s.Refused("is not a time", "", "events", "list", "--since", "last tuesday")
	s.Refused("no person nobody", "", "events", "list", "--person", "nobody")
}

// TestPersonMerge: the command says what goes over and changes nothing with --dry-run, and has the events of a merge
// with the caller as actor.
func TestPersonMerge(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	s.Run("the password of ada\n", "person", "add", "ada", "--groups", "staff", "--email", "ada@example.com")
	s.Run("the password of old\n", "person", "add", "old-ada", "--groups", "staff,press", "--email", "ada@old.example.com")
	s.Refused("these are the same account", "", "person", "merge", "ada", "ada", "--yes")
	s.Refused("no person adda; did you mean ada?", "", "person", "merge", "ada", "adda", "--yes")
	for _, flags := range [][]string{{"--dry-run"}, {"--yes"}} {
		out := s.Run("", append([]string{"person", "merge", "ada", "old-ada"}, flags...)...)
		for _, want := range []string{
			"groups             press", "addresses          ada@old.example.com", "linked accounts    none",
			"tokens that end    0",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("person merge %s lacks %q:\n%s", flags, want, out)
			}
		}
		if done := strings.HasSuffix(out, "merged old-ada into ada\n"); done != (flags[0] == "--yes") {
			t.Errorf("person merge %s = %s", flags, out)
		}
		if flags[0] == "--dry-run" {
			s.Run("", "person", "show", "old-ada")
			if list := s.Run("", "events", "list", "--type", "person.PersonsMerged"); list != "0 events\n" {
				t.Errorf("a dry run has events: %s", list)
			}
		}
	}
	s.Refused("no person old-ada", "", "person", "show", "old-ada")
	if out := s.Run("", "person", "show", "ada"); !strings.Contains(out, "staff press") {
		t.Errorf("after the merge: %s", out)
	}
	events := servertest.Decode[[]map[string]any](t, s.Run("", "events", "list", "--json", "--type", "person.PersonsMerged"))
	removed := servertest.Decode[[]map[string]any](t, s.Run("", "events", "list", "--json", "--type", "person.PersonRemoved"))
	if len(events) != 1 || len(removed) != 1 || events[0]["event_agent_user"] != removed[0]["event_agent_user"] ||
		events[0]["event_agent_user"] == "" {
		t.Errorf("events of the merge = %v, of the removal = %v", events, removed)
	}
	s.Refused("no person old-ada", "", "person", "merge", "ada", "old-ada", "--yes")
}

// TestPersonShowIsOneRead: what an operator reads of a person is of one moment: the sessions, tokens and consents of a
// person who signs out meanwhile are there together, or gone together.
func TestPersonShowIsOneRead(t *testing.T) {
	s := servertest.NewServer(t)
	s.Storage, s.Key = "storage memory shown", "encryption_key "+servertest.TestKey
	s.MustLoad()
	store := servertest.MemoryOf(t, "shown")
	before := store.Views.Load()
	if out := s.Run("", "person", "show", "demo@example.com"); !strings.Contains(out, "demo@example.com") {
		t.Errorf("person show = %s", out)
	}
	if n := store.Views.Load() - before; n != 1 {
		t.Errorf("person show reads in %d transactions, want 1", n)
	}
}

// TestShellCompletesNames: a shell that asks what can follow gets the usernames and clients that match.
func TestShellCompletesNames(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	for want, args := range map[string][]string{
		"demo@example.com": {"person", "show", "--address", s.Admin, "dem"},
		"reports":          {"client", "show", "--address", s.Admin, "repo"},
	} {
		out, err := servertest.Run(t, "", append([]string{"__complete"}, args...)...)
		if err != nil || !strings.HasPrefix(out, want) {
			t.Errorf("__complete %q = %q, %v, want %s", args, out, err, want)
		}
	}
	if out, err := servertest.Run(t, "", "__complete", "client", "show", "--address", "127.0.0.1:1", "repo"); err != nil ||
		strings.Contains(out, "reports") {
		t.Errorf("without a server: %q, %v, want nothing", out, err)
	}
}

// TestClientShowLeavesNothingOut: what the Caddyfile says of a client is what an operator reads of it.
func TestClientShowLeavesNothingOut(t *testing.T) {
	s := servertest.NewServer(t)
	logo := filepath.Join(s.Dir, "shop.png")
	var picture bytes.Buffer
	if err := errors.Join(png.Encode(&picture, image.NewGray(image.Rect(0, 0, 8, 8))),
		os.WriteFile(logo, picture.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(s.Dir, "keys.json")
	const set = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"key-of-signer","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
	if err := os.WriteFile(keys, []byte(set), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Extra = `client shop {
		secret ` + servertest.TestSecret + `
		redirect_uris https://shop.example.com/callback
		grants authorization_code
		scopes openid
		subject_type pairwise
		backchannel_logout_uri https://shop.example.com/back
		frontchannel_logout_uri https://shop.example.com/front
		logo ` + logo + `
	}
	client signer {
		jwks ` + keys + `
		auth_method private_key_jwt
		grants client_credentials
		scopes orders.read
		token_format jwt
	}
	client remote {
		token_format jwt
		id_token_alg EdDSA
		jwks https://remote.example.com/keys
		auth_method private_key_jwt
		grants client_credentials
		scopes orders.read
	}`
	s.MustLoad()
	shown := servertest.Decode[map[string]any](t, s.Run("", "client", "show", "shop", "--json"))
	for member, want := range map[string]string{
		"subject_type": "pairwise", "backchannel_logout_uri": "https://shop.example.com/back",
		"frontchannel_logout_uri": "https://shop.example.com/front", "logo": logo,
	} {
		if shown[member] != want {
			t.Errorf("client show shop --json: %s = %v, want %s", member, shown[member], want)
		}
	}
	out := s.Run("", "client", "show", "shop")
	for _, want := range []string{
		"pairwise", "https://shop.example.com/back", "https://shop.example.com/front", logo,
		"post (in the form, or Basic credentials)",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("client show shop = %s, want %s in it", out, want)
		}
	}
	if out := s.Run("", "client", "show", "signer"); !strings.Contains(out, keys) || !strings.Contains(out, "key-of-signer") {
		t.Errorf("client show signer = %s, want the file of its keys and the id of the one in it", out)
	}
	for id, want := range map[string]string{"signer": "ES256", "remote": "EdDSA"} {
		if out := s.Run("", "client", "show", id); !strings.Contains(out, "JWT, "+want) {
			t.Errorf("client show %s = %s, want that its access tokens are signed with %s", id, out, want)
		}
		if c := servertest.Decode[map[string]any](t, s.Run("", "client", "show", id, "--json")); c["access_token_alg"] != want {
			t.Errorf("client show %s --json: access_token_alg = %v, want %s", id, c["access_token_alg"], want)
		}
	}
	if _, ok := shown["access_token_alg"]; ok || strings.Contains(out, "JWT") {
		t.Errorf("client show shop = %s, %v: its access tokens are opaque", out, shown)
	}
	if out := s.Run("", "client", "show", "remote"); !strings.Contains(out, "https://remote.example.com/keys") {
		t.Errorf("client show remote = %s, want the address of its keys", out)
	}
}

// TestClientAdministration: an operator shows, changes, disables and removes clients by command, and rotates secrets.
func TestClientAdministration(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	added := servertest.Decode[map[string]string](t,
		s.Run("", "client", "add", "batch", "--grants", "client_credentials", "--scopes", "orders.read", "--json"))
	token := func(secret string) int {
		t.Helper()
		r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader("grant_type=client_credentials&scope=orders.read"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth("batch", secret)
		resp, _ := s.Do(r)
		return resp.StatusCode
	}
	old := added["secret"]
	if got := token(old); got != http.StatusOK {
		t.Fatalf("token with the first secret = %d", got)
	}
	next := servertest.Decode[map[string]string](t, s.Run("", "client", "rotate-secret", "batch", "--keep-old", "--json"))["secret"]
	if a, b := token(old), token(next); a != http.StatusOK || b != http.StatusOK {
		t.Errorf("tokens with both secrets = %d, %d", a, b)
	}
	s.Run("", "client", "rotate-secret", "batch", "--end-old")
	if a, b := token(old), token(next); a != http.StatusUnauthorized || b != http.StatusOK {
		t.Errorf("tokens with the old and the new secret = %d, %d, want 401 and 200", a, b)
	}
	last := servertest.Decode[map[string]string](t, s.Run("", "client", "rotate-secret", "batch", "--json"))["secret"]
	if a, b := token(next), token(last); a != http.StatusUnauthorized || b != http.StatusOK {
		t.Errorf("tokens after a rotation = %d, %d, want 401 and 200", a, b)
	}
	s.Run("", "client", "set", "batch", "--name", "Nightly batch")
	if out := s.Run("", "client", "show", "batch"); !strings.Contains(out, "Nightly batch") || !strings.Contains(out, "orders.read") ||
		strings.Contains(out, last) {
		t.Errorf("client show = %s", out)
	}
	s.Run("", "client", "disable", "batch")
	if got := token(last); got == http.StatusOK {
		t.Error("a disabled client gets a token")
	}
	s.Run("", "client", "enable", "batch")
	if got := token(last); got != http.StatusOK {
		t.Errorf("token of a client that was enabled again = %d", got)
	}
	s.Run("", "client", "revoke", "batch")
	s.Refused("no client bach; did you mean batch?", "", "client", "show", "bach")
	s.Refused("client reports is in the Caddyfile", "", "client", "set", "reports", "--name", "Reports")
	s.Refused("client reports is in the Caddyfile", "", "client", "remove", "reports", "--yes")
	s.Refused("nothing to change", "", "client", "set", "batch")
	s.Refused("grants", "", "client", "set", "batch", "--grants", "everything")
	if out := s.Run("", "client", "list", "--match", "nightly"); !strings.HasPrefix(out, "ID") || !strings.HasSuffix(out, "\n1 client\n") {
		t.Errorf("client list --match = %s", out)
	}
	s.Run("", "client", "remove", "batch", "--yes")
	if got := token(last); got != http.StatusUnauthorized {
		t.Errorf("token of a removed client = %d, want 401", got)
	}
	s.Refused("no client batch", "", "client", "remove", "batch", "--yes")
}

// TestServiceCommands: keys, providers, mail and versions by command; errors as JSON.
func TestServiceCommands(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	keys := servertest.Decode[[]map[string]any](t, s.Run("", "keys", "list", "--json"))
	rotated := servertest.Decode[[]map[string]any](t, s.Run("", "keys", "rotate", "--json"))
	if len(keys) != 3 || len(rotated) != 6 {
		t.Errorf("%d keys, %d after a rotation, want 3 and 6", len(keys), len(rotated))
	}
	uses := map[any]int{}
	for _, k := range rotated {
		uses[k["use"]]++
	}
	if uses["signs"] != 3 || uses["next"] != 3 {
		t.Errorf("uses of the keys = %v", uses)
	}
	if again := servertest.Decode[[]any](t, s.Run("", "keys", "rotate", "--json")); len(again) != 6 {
		t.Errorf("%d keys after a second rotation, want 6: the successors wait already", len(again))
	}
	kid := ""
	for _, k := range rotated {
		if k["use"] == "signs" {
			kid = k["kid"].(string)
		}
	}
	if out := s.Run("", "keys", "retire", kid); strings.Contains(out, kid) || !strings.HasSuffix(out, "5 keys\n") {
		t.Errorf("keys retire %s = %s", kid, out)
	}
	s.Refused("no such", "", "keys", "retire", kid)
	if out := s.Run("", "keys", "list"); !strings.HasPrefix(out, "ALG") || !strings.HasSuffix(out, "5 keys\n") {
		t.Errorf("keys list = %s", out)
	}
	if out := s.Run("", "idp", "list"); out != "0 identity providers\n" {
		t.Errorf("idp list = %q", out)
	}
	s.Refused("no identity provider staff", "", "idp", "test", "staff")
	s.Refused("no mail is configured", "", "mail", "test", "ada@example.com")
	if out := s.Run("", "session", "list"); out != "0 sessions\n" {
		t.Errorf("session list = %q", out)
	}
	s.Refused("no live session abc", "", "session", "end", "abc")
	s.Refused("no person nobody", "", "session", "list", "--person", "nobody")
	if v := servertest.Decode[map[string]string](t, s.Run("", "version", "--json")); v["go"] == "" || v["caddy"] == "" ||
		v["gatehouse"] == "" {
		t.Errorf("version = %v", v)
	}
	root := &cobra.Command{Use: "gatehouse"}
	caddycmd.Commands()["gatehouse"].CobraFunc(root)
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs([]string{"person", "show", "nobody", "--json", "--address", s.Admin})
	if err := root.ExecuteContext(t.Context()); err == nil {
		t.Error("person show of an unknown person succeeds")
	}
	if e := servertest.Decode[map[string]string](t, errs.String()); e["error"] != "no person nobody" || out.Len() != 0 {
		t.Errorf("with --json the error is %q, and the output %q", errs.String(), out.String())
	}
}

// TestSessionCommands: an operator sees who is signed in, and ends one session or all of a person.
func TestSessionCommands(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	one, two := servertest.NewBrowser(t), servertest.NewBrowser(t)
	one.SignIn(s.Issuer() + "/account")
	two.SignIn(s.Issuer() + "/account")
	signedIn := func(b *servertest.Browser) bool {
		t.Helper()
		res, _ := b.Open(s.Issuer() + "/account")
		return res.StatusCode == http.StatusOK && res.Request.URL.Path == "/account"
	}
	if !signedIn(one) || !signedIn(two) {
		t.Fatal("no one is signed in")
	}
	type session struct {
		ID, Username string
		Level        int
	}
	all := servertest.Decode[[]session](t, s.Run("", "session", "list", "--json"))
	if len(all) != 2 || all[0].Username != "demo@example.com" || all[0].Level != 1 {
		t.Fatalf("session list = %+v", all)
	}
	if out := s.Run("", "person", "show", "demo@example.com"); !strings.Contains(out, all[0].ID) || !strings.Contains(out, "2 sessions") {
		t.Errorf("person show = %s, want both sessions", out)
	}
	s.Run("", "session", "end", all[0].ID)
	if a, b := signedIn(one), signedIn(two); a == b {
		t.Errorf("after the end of one session: signed in %t and %t, want one of them", a, b)
	}
	s.Refused("no live session", "", "session", "end", all[0].ID)
	s.Run("", "person", "sign-out", "demo@example.com")
	if signedIn(one) || signedIn(two) {
		t.Error("a person who was signed out everywhere is signed in")
	}
	if out := s.Run("", "person", "sessions", "demo@example.com"); out != "0 sessions\n" {
		t.Errorf("person sessions = %q", out)
	}
	if out := s.Run("", "events", "list", "--type", "login.LoginSucceeded", "--person", "demo@example.com", "--since",
		"today"); !strings.HasSuffix(out, "\n2 events\n") {
		t.Errorf("events list = %s, want both sign-ins", out)
	}
}
