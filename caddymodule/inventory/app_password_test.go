package inventory_test

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

const appPasswordsPage = "/account/security/app-passwords"

var shownAppPassword = regexp.MustCompile(`<p class="secret" id="link"><code>(ghpw_[A-Za-z0-9_-]+)</code>`)

// ask sends a request as a program does.
func ask(w *servertest.Walk, target, username, password string) (*http.Response, string) {
	w.T.Helper()
	r, err := http.NewRequestWithContext(w.T.Context(), http.MethodGet, target, nil)
	if err != nil {
		w.T.Fatal(err)
	}
	r.SetBasicAuth(username, password)
	b := servertest.NewBrowser(w.T)
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := b.Do(r)
	if err != nil {
		w.T.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.T.Fatal(err)
	}
	return res, string(body)
}

// formOf cuts the page down to its form with this field.
func formOf(body, field string) string {
	for part := range strings.SplitSeq(body, "<form ") {
		if form, _, ok := strings.Cut(part, "</form>"); ok && strings.Contains(form, field) {
			return "<form " + form + "</form>"
		}
	}
	return ""
}

// TestAppPasswordFromPageToProgram: a person makes an app password on the account page, a program uses it, and the
// person sees that and revokes it.
func TestAppPasswordFromPageToProgram(t *testing.T) {
	w := servertest.NewWalk(t)
	config := w.Config
	w.Config = func() string {
		return strings.Replace(config(), "login\n\t\tgroups staff", "login\n\t\tgroups staff\n\t\taccept app_passwords", 1)
	}
	b := servertest.NewBrowser(t)
	b.SignIn(w.Wiki + "/")
	if res, body := b.Open(w.Issuer() + appPasswordsPage); res.StatusCode != http.StatusNotFound || strings.Contains(body, "app-passwords") {
		t.Errorf("without a site that accepts app passwords the page is %d, want 404", res.StatusCode)
	}
	w.Reload()
	_, body := b.Open(w.Issuer() + "/account/security")
	if !strings.Contains(body, appPasswordsPage) {
		t.Errorf("the page Security does not lead to app passwords:\n%s", body)
	}
	res, body := b.Open(w.Issuer() + appPasswordsPage)
	if !strings.Contains(body, `value="`+w.Wiki+`"`) || strings.Contains(body, w.Shop) {
		t.Fatalf("the page does not offer the wiki alone:\n%s", body)
	}
	form := formOf(body, `name="days"`)
	for what, fields := range map[string]url.Values{
		"no name": {"name": {" "}, "site-0": {w.Wiki}, "days": {"30"}}, "no site": {"name": {"Git"}, "days": {"30"}},
		"another site": {"name": {"Git"}, "site-0": {w.Shop}}, "a scope of no site": {"name": {"Git"}, "site-0": {w.Wiki}, "scope-0": {"openid"}},
		"letters for a number": {"name": {"Git"}, "site-0": {w.Wiki}, "uses": {"many"}},
	} {
		if res, body := b.Submit(res, form, fields); res.StatusCode != http.StatusUnprocessableEntity || shownAppPassword.MatchString(body) {
			t.Errorf("%s: %d, want 422 and no app password", what, res.StatusCode)
		}
	}
	made, body := b.Submit(res, form, url.Values{"name": {"Git <b>"}, "site-0": {w.Wiki}, "days": {"30"}, "uses": {""}})
	shown := shownAppPassword.FindStringSubmatch(body)
	if made.StatusCode != http.StatusOK || shown == nil || made.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("the page does not show an app password: %d\n%s", made.StatusCode, body)
	}
	password := html.UnescapeString(shown[1])
	if _, body := b.Open(w.Issuer() + appPasswordsPage); strings.Contains(body, password) || !strings.Contains(body, "Git &lt;b&gt;") ||
		!strings.Contains(body, "Not used yet") {
		t.Errorf("the page shows the app password again, or does not list it:\n%s", body)
	}
	if res, body := ask(w, w.Wiki+"/repo.git", "git", password); res.StatusCode != http.StatusOK ||
		!strings.Contains(body, "demo@example.com") || strings.Contains(body, "Authorization") {
		t.Errorf("a program gets %d %s, want the upstream, which knows the person and not the app password", res.StatusCode, body)
	}
	if res, _ := ask(w, w.Shop+"/app/", "git", password); res.StatusCode == http.StatusOK {
		t.Error("it opens another site too")
	}
	_, body = b.Open(w.Issuer() + appPasswordsPage)
	if !strings.Contains(body, "127.0.0.1 at "+strings.TrimPrefix(w.Wiki, "http://")) {
		t.Errorf("the page does not say when and where it was used:\n%s", body)
	}
	if out := w.Run("", "person", "show", "demo@example.com"); !strings.Contains(out, "1 app password") || !strings.Contains(out, w.Wiki) ||
		strings.Contains(out, "ghpw_") {
		t.Errorf("person show = %s, want the app password without its secret", out)
	}
	res, body = b.Submit(res, formOf(body, `name="revoke"`), url.Values{})
	if res.StatusCode != http.StatusOK || !strings.Contains(body, "App password revoked") {
		t.Errorf("revoke: %d\n%s", res.StatusCode, body)
	}
	if res, _ := ask(w, w.Wiki+"/repo.git", "git", password); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("with the revoked app password a program gets %d, want 401", res.StatusCode)
	}
	log, err := os.ReadFile(w.Log)
	if err != nil || strings.Contains(string(log), "ghpw_") {
		t.Error("the app password is in the log")
	}
}

// TestAccountPasswordByBasicCountsNothing: the password of an account opens nothing by Basic, and guesses there slow
// no one down.
func TestAccountPasswordByBasicCountsNothing(t *testing.T) {
	t.Run("attack 362: the password of the account by Basic, guessed again and again", func(t *testing.T) {
		w := servertest.NewWalk(t)
		config := w.Config
		w.Config = func() string {
			return strings.Replace(config(), "login\n\t\tgroups staff", "login\n\t\tgroups staff\n\t\taccept app_passwords", 1)
		}
		w.Reload()
		for _, password := range []string{servertest.TestPassword, "wrong"} {
			for range 30 { // more than the attempts before the first wait
				if res, body := ask(w, w.Wiki+"/", "demo@example.com", password); res.StatusCode != http.StatusUnauthorized ||
					len(res.Header.Values("WWW-Authenticate")) != 3 || strings.Contains(body, "header") {
					t.Fatalf("Basic with a password = %d %q %s, want 401 that asks for Bearer, Basic and DPoP", res.StatusCode,
						res.Header.Values("WWW-Authenticate"), body)
				}
			}
		}
		b := servertest.NewBrowser(t)
		if res, body := b.SignIn(w.Wiki + "/"); res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Request.URL.String(), w.Wiki) {
			t.Errorf("afterwards the person cannot sign in: %d\n%s", res.StatusCode, body)
		}
		if _, body := b.Open(w.Issuer() + "/account/activity"); strings.Contains(body, "A sign-in failed") || strings.Contains(body, "paused") {
			t.Errorf("the guesses are attempts of the person:\n%s", body)
		}
	})
}

// TestAppPasswordForSeveralSites: the form as it is shown makes one for each site and permission that is ticked.
func TestAppPasswordForSeveralSites(t *testing.T) {
	w := servertest.NewWalk(t)
	config := w.Config
	w.Config = func() string {
		return strings.ReplaceAll(config(), "\t\tlogin\n", "\t\tlogin\n\t\taccept app_passwords\n\t\tscopes read write\n")
	}
	w.Reload()
	b := servertest.NewBrowser(t)
	b.SignIn(w.Wiki + "/")
	res, body := b.Open(w.Issuer() + appPasswordsPage)
	form := formOf(body, `name="days"`)
	fields := url.Values{"name": {"Sync"}, "days": {"30"}}
	for _, box := range regexp.MustCompile(`<input type="checkbox"[^>]* name="([^"]+)" value="([^"]+)"`).FindAllStringSubmatch(form, -1) {
		fields.Add(box[1], html.UnescapeString(box[2]))
	}
	if len(fields) != 2+2+2 {
		t.Fatalf("the form does not offer two sites and two permissions under names of their own: %v\n%s", fields, form)
	}
	_, body = b.Submit(res, form, fields)
	shown := shownAppPassword.FindStringSubmatch(body)
	if shown == nil {
		t.Fatalf("no app password:\n%s", body)
	}
	for _, target := range []string{w.Wiki + "/", w.Shop + "/app/"} {
		if res, body := ask(w, target, "x", html.UnescapeString(shown[1])); res.StatusCode != http.StatusOK {
			t.Errorf("%s = %d %s", target, res.StatusCode, body)
		}
	}
}

// TestAppPasswordsSwitchedOff: the word of the Caddyfile takes the page away and refuses those that exist.
func TestAppPasswordsSwitchedOff(t *testing.T) {
	w := servertest.NewWalk(t)
	config, off := w.Config, ""
	w.Config = func() string {
		c := strings.Replace(config(), "login\n\t\tgroups staff", "login\n\t\tgroups staff\n\t\taccept app_passwords", 1)
		return strings.Replace(c, "identity {", "identity {"+off, 1)
	}
	w.Reload()
	b := servertest.NewBrowser(t)
	b.SignIn(w.Wiki + "/")
	res, body := b.Open(w.Issuer() + appPasswordsPage)
	_, body = b.Submit(res, formOf(body, `name="days"`), url.Values{"name": {"Git"}, "site-0": {w.Wiki}, "days": {"90"}})
	shown := shownAppPassword.FindStringSubmatch(body)
	if shown == nil {
		t.Fatalf("no app password:\n%s", body)
	}
	if res, _ := ask(w, w.Wiki+"/", "x", shown[1]); res.StatusCode != http.StatusOK {
		t.Fatalf("the app password gives %d", res.StatusCode)
	}
	off = "\n\t\tapp_passwords off"
	w.Reload()
	if res, _ := ask(w, w.Wiki+"/", "x", shown[1]); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("switched off, the app password gives %d, want 401", res.StatusCode)
	}
	// The person can still revoke it.
	if _, body := b.Open(w.Issuer() + appPasswordsPage); strings.Contains(body, `name="days"`) || !strings.Contains(body, `name="revoke"`) {
		t.Errorf("switched off, the page offers another one or does not list it:\n%s", body)
	}
}

// TestAppPasswordsByCommand: an operator revokes one app password of a person, all, or one that was found somewhere.
func TestAppPasswordsByCommand(t *testing.T) {
	w := servertest.NewWalk(t)
	config := w.Config
	w.Config = func() string {
		return strings.Replace(config(), "login\n\t\tgroups staff", "login\n\t\tgroups staff\n\t\taccept app_passwords", 1)
	}
	w.Reload()
	b := servertest.NewBrowser(t)
	b.SignIn(w.Wiki + "/")
	var made []string
	for range 4 {
		res, body := b.Open(w.Issuer() + appPasswordsPage)
		_, body = b.Submit(res, formOf(body, `name="days"`), url.Values{"name": {"Git"}, "site-0": {w.Wiki}, "days": {"90"}})
		shown := shownAppPassword.FindStringSubmatch(body)
		if shown == nil {
			t.Fatalf("no app password:\n%s", body)
		}
		made = append(made, shown[1])
	}
	working := func() (n int) {
		for _, text := range made {
			if res, _ := ask(w, w.Wiki+"/", "x", text); res.StatusCode == http.StatusOK {
				n++
			}
		}
		return n
	}
	type details struct {
		AppPasswords []struct{ ID string } `json:"app_passwords"`
	}
	list := servertest.Decode[details](t, w.Run("", "person", "show", "demo@example.com", "--json")).AppPasswords
	if len(list) != 4 || working() != 4 {
		t.Fatalf("person show --json has %d app passwords, want 4 that work", len(list))
	}
	w.Run("", "person", "revoke-app-password", "demo@example.com", list[0].ID)
	w.Refused("no app password "+list[0].ID, "", "person", "revoke-app-password", "demo@example.com", list[0].ID)
	w.Refused("--all", "", "person", "revoke-app-password", "demo@example.com")
	w.Refused("no person nobody", "", "person", "revoke-app-password", "nobody", "--all")
	if n := working(); n != 3 {
		t.Errorf("%d work after one of 4 was revoked", n)
	}
	w.Run("", "person", "revoke-app-password", "demo@example.com", "--all")
	if n := working(); n != 0 {
		t.Errorf("%d work after all were revoked", n)
	}
}
