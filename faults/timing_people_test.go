package faults

import (
	"fmt"
	"html"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// The number of requests of each kind. The first costs a slow hash, and so does the last.
const (
	peopleSamples = 600
	resetSamples  = 1500
	signUpSamples = 400
	people        = 400 // enough that no person is throttled
)

// blankForm is a form that anyone can send, with the cookies of the browser that requested it.
type blankForm struct {
	host, action, cookies string
	hidden                url.Values
}

var (
	postForm    = regexp.MustCompile(`(?s)<form method="post" action="([^"]*)".*?</form>`)
	hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`)
)

// ask opens a page with a form that has the field.
func (s setup) ask(t *testing.T, path, field string) blankForm {
	t.Helper()
	b := s.Server.NewBrowser()
	a, at := b.Visit(t.Context(), s.Server.Issuer()+path)
	var m [][]byte
	for _, form := range postForm.FindAllSubmatch(a.Body, -1) {
		if strings.Contains(string(form[0]), `name="`+field+`"`) {
			m = form
		}
	}
	if a.Status != http.StatusOK || m == nil {
		t.Fatalf("%s = %d at %s, and no form: %.300s", path, a.Status, at, a.Body)
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	f := blankForm{host: s.host(), action: html.UnescapeString(string(m[1])), hidden: url.Values{}}
	for _, h := range hiddenField.FindAllSubmatch(m[0], -1) {
		f.hidden.Set(string(h[1]), html.UnescapeString(string(h[2])))
	}
	for _, c := range b.HTTP.Jar.Cookies(u) {
		f.cookies += "; " + c.Name + "=" + c.Value
	}
	f.cookies = strings.TrimPrefix(f.cookies, "; ")
	return f
}

// sent is the form with these fields, from an address that was not used before.
func (f blankForm) sent(rnd *rand.Rand, fields ...string) []byte {
	v := url.Values{}
	for name, values := range f.hidden {
		v[name] = values
	}
	for i := 0; i+1 < len(fields); i += 2 {
		v.Set(fields[i], fields[i+1])
	}
	address := fmt.Sprintf("%d.%d.%d.%d", 11+rnd.IntN(100), rnd.IntN(256), rnd.IntN(256), 1+rnd.IntN(250))
	return lab.Request("POST", f.host, f.action, v.Encode(), "Cookie", f.cookies, "Sec-Fetch-Site", "same-origin", "X-Forwarded-For", address)
}

// timingOfPeople checks whether response time reveals who has an account: on the sign-in page, for a forgotten
// password, and on sign-up.
func timingOfPeople(t *testing.T, rep *report) {
	mails, err := lab.NewMailServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mails.Close)
	s := start(t, lab.Config{
		Global:    "\tservers {\n\t\ttrusted_proxies static 127.0.0.1/32\n\t}",
		Gatehouse: fmt.Sprintf("\t\tmail smtp %s {\n\t\t\tfrom no-reply@example.com\n\t\t}", mails.Addr),
	}, 1)
	var list []map[string]any
	for i := range people {
		list = append(list, map[string]any{"username": member(i), "password_hash": hashOfNobody, "name": "Somebody"},
			map[string]any{"username": bare(i), "name": "Somebody"},
			map[string]any{"username": asleep(i), "password_hash": hashOfNobody, "inactive": true})
	}
	for part := range slices.Chunk(list, 300) {
		if a := s.admin(t, "/gatehouse/persons/import", map[string]any{"persons": part}); a.Status != http.StatusOK ||
			strings.Contains(string(a.Body), "failed") {
			t.Fatalf("import = %d %.300s: %v", a.Status, a.Body, a.Err)
		}
	}
	rnd := random()
	tell := func(name string, n, want int, kinds map[string]func() []byte) {
		t.Helper()
		names, order := []string{"nobody"}, []func() []byte{kinds["nobody"]}
		for k, f := range kinds {
			if k != "nobody" {
				names, order = append(names, k), append(order, f)
			}
		}
		times, status := s.timesOf(t, n, order...)
		if status != want {
			t.Errorf("%s = %d, want %d: it was not accepted", name, status, want)
		}
		for i := 1; i < len(times); i++ {
			auc := AUC(times[0], times[i])
			rep.add("%s, %s: AUC %.3f", name, names[i], auc)
			if auc > 0.55 {
				t.Errorf("%s: a person %s is told from an unknown one with AUC %.3f, want at most 0.55", name, names[i], auc)
			}
		}
	}
	t.Run("attack 218: time of a sign-in of nobody, with a wrong password, of somebody inactive and of one without a password",
		func(*testing.T) {
			f := s.ask(t, "/sign-in", "password")
			try := func(who func(int) string) func() []byte {
				n := 0
				return func() []byte {
					n++
					return f.sent(rnd, "username", who(n%people), "password", "not the password")
				}
			}
			tell("sign-in", peopleSamples, http.StatusUnprocessableEntity,
				map[string]func() []byte{"nobody": try(nobody), "wrong password": try(member), "inactive": try(asleep), "without password": try(bare)})
		})
	t.Run("attack 218: time of a forgotten password of nobody and of somebody", func(*testing.T) {
		s.configure(t, map[string]any{
			"features":            map[string]any{"password_reset_enabled": true},
			"email_notifications": map[string]any{"password_reset": true},
		})
		f := s.ask(t, "/forgot", "username")
		ask := func(who func(int) string) func() []byte {
			n := 0
			return func() []byte {
				n++
				return f.sent(rnd, "username", who(n%people))
			}
		}
		tell("forgotten password", resetSamples, http.StatusSeeOther,
			map[string]func() []byte{"nobody": ask(nobody), "with password": ask(member)})
	})
	t.Run("attack 219: time of a sign-up with an address that is known and one that is not", func(*testing.T) {
		s.configure(t, map[string]any{
			"features":   map[string]any{"sign_up_enabled": true},
			"attributes": map[string]any{"verification": map[string]any{"email_enabled": true}},
		})
		f := s.ask(t, "/sign-up", "password")
		sign := func(who func(int) string) func() []byte {
			n := 0
			return func() []byte {
				n++
				return f.sent(rnd, "email", who(n%people), "given_name", "Some", "family_name", "Body", "password", "a password of length")
			}
		}
		tell("sign-up", signUpSamples, http.StatusSeeOther, map[string]func() []byte{"nobody": sign(nobody), "who is known": sign(member)})
	})
}

// hashOfNobody is a stored hash at the server's own cost that no password has.
const hashOfNobody = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

func member(i int) string { return fmt.Sprintf("member-%d@example.com", i) }
func bare(i int) string   { return fmt.Sprintf("member-%d@bare.example", i) }
func asleep(i int) string { return fmt.Sprintf("member-%d@rest.example", i) }
func nobody(i int) string { return fmt.Sprintf("nobody-%d@example.com", i) }
