package notify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/net/html"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// postman is a transport that takes messages, or does not.
type postman struct {
	mu    sync.Mutex // guards what follows
	fail  error
	tries int
	taken []notify.Message
}

func (p *postman) Deliver(_ context.Context, m notify.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tries++
	if p.fail == nil {
		p.taken = append(p.taken, m)
	}
	return p.fail
}

func (p *postman) Check(context.Context) error { return p.fail }

// post is a Mail with its own store and clock.
type post struct {
	testing.TB
	*notify.Mail
	*postman
	store storage.Store
	time  time.Time
	log   *bytes.Buffer
	over  []*web.Overrides
	pages *web.Renderer
}

func newPost(t *testing.T) *post {
	t.Helper()
	p := &post{TB: t, postman: new(postman), time: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), log: new(bytes.Buffer)}
	store, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = func() time.Time { return p.time } })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // a memory store
	p.store = store
	if p.pages, err = web.New(web.Config{
		Issuer: "https://auth.example.com", Key: make([]byte, 32), Locales: web.Languages(),
		Brand: web.Brand{Name: "Albers & Co"},
	}); err != nil {
		t.Fatal(err)
	}
	p.pages.SetOverrides(func(context.Context) []*web.Overrides { return p.over })
	p.open(make([]byte, secret.KeySize))
	return p
}

// open makes the Mail again over the same store, as a restart does.
func (p *post) open(key []byte) {
	p.Helper()
	ring, err := secret.NewKeyring(key)
	if err != nil {
		p.Fatal(err)
	}
	ground, ink := p.pages.Button()
	p.Mail, err = notify.NewMail(
		notify.MailConfig{Issuer: "https://auth.example.com", Brand: p.pages.BrandName(), Ground: ground, Ink: ink},
		notify.Deps[notify.Transport]{
			Store: p.store, Keyring: ring, Transport: p.postman, Words: p.pages.Words, Now: func() time.Time { return p.time },
			Log: zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(p.log), zapcore.DebugLevel)),
		},
	)
	if err != nil {
		p.Fatal(err)
	}
}

func (p *post) send(n notify.Notice) {
	p.Helper()
	if n.At.IsZero() {
		n.At = p.time
	}
	if err := p.store.Update(p.Context(), func(tx storage.Tx) error { return p.Send(tx, n) }); err != nil {
		p.Fatal(err)
	}
}

// round runs one round and checks its figures.
func (p *post) round(sent, failed int) {
	p.Helper()
	if s, f, err := p.Round(p.Context()); s != sent || f != failed || err != nil {
		p.Errorf("Round = %d sent, %d failed, %v, want %d and %d", s, f, err, sent, failed)
	}
}

// one sends a notice and returns the message.
func (p *post) one(n notify.Notice) notify.Message {
	p.Helper()
	p.send(n)
	p.round(1, 0)
	return p.taken[len(p.taken)-1]
}

// sample is a notice with everything.
func sample(kind notify.Kind) notify.Notice {
	return notify.Notice{
		Kind: kind, To: "ann@example.com", PersonID: "1", Name: "Ann",
		Data: map[string]string{
			"username": "ann", "address": "new@example.com", "provider": "Partner account", "code": "123456",
			"application": "The shop", "subject": "f3a1", "app": "Phone", "administrator": "ben@example.com", "sites": "dav.example.com",
			"site": "wiki.example.com", "person": "ann", "alert": "Refusals", "count": "3", "events": "Login Failed",
			"settings": "features.pin_enabled", "client": "shop", "percent": "80", "quota": "10/month", "used": "8", "of": "10",
			"method": "authenticator",
		},
		Until: time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC),
	}
}

// messageKey finds the key of a missing message, and not a sentence that ends with "e-mail."
var messageKey = regexp.MustCompile(`\bmail\.[a-z]`)

// TestEveryKindHasWords: no kind shows a key or an unfilled name in any language.
func TestEveryKindHasWords(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	for _, lang := range web.Languages() {
		for _, kind := range notify.Kinds() {
			n := sample(kind)
			n.Locales = []string{lang}
			switch kind {
			case notify.Welcome, notify.AttributesUpdated, notify.PhoneNumberUpdated, notify.PasswordUpdated, notify.IdentityCoupled,
				notify.ResetLink, notify.ResetNoPassword, notify.Activation, notify.SignUpExisting, notify.EmailVerification,
				notify.AppPasswordMade, notify.EventAlert:
				n.Link = "/account"
			}
			if strings.HasPrefix(string(kind), "access_") {
				n.Data["note"] = "for the audit"
			}
			if kind == notify.IdentityCoupled {
				n.Data["account"] = "ann@partner.example"
			}
			m := p.one(n)
			for what, text := range map[string]string{"subject": m.Subject, "text": m.Text, "HTML": m.HTML} {
				if text == "" || messageKey.MatchString(text) || strings.ContainsAny(strings.NewReplacer("{{", "").Replace(text), "{}") &&
					what != "HTML" {
					t.Errorf("%s %s: %s = %q", lang, kind, what, text)
				}
			}
			if !strings.Contains(m.HTML, `<html lang="`+lang+`">`) {
				t.Errorf("%s %s: another language: %.60s", lang, kind, m.HTML)
			}
			if (n.Link != "") != strings.Contains(m.Text, "https://auth.example.com/account") ||
				(n.Link != "") != strings.Contains(m.HTML, `href="https://auth.example.com/account"`) {
				t.Errorf("%s %s: the link is not as it should be", lang, kind)
			}
		}
	}
}

// TestMailNamesTheLinkedAccount: who reads that an account elsewhere was linked can identify it. A name that mail
// programs would turn into a link, or that spoils the text, is left out.
func TestMailNamesTheLinkedAccount(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	for account, want := range map[string]bool{
		"mallory@evil.example": true, "mallory": true, "f3a1-77": true, "": false, "https://evil.example/reset": false, "www.evil": false,
		"a\nb": false, strings.Repeat("x", 200): false,
	} {
		n := sample(notify.IdentityCoupled)
		n.Data["account"], n.Locales = account, []string{"en"}
		m := p.one(n)
		if got := strings.Contains(m.Text, "\n\nThe account at Partner account: "+account+"\n\n"); got != want || account != "" &&
			strings.Contains(m.HTML, account) != want {
			t.Errorf("the account %q is named: %t, want %t\n%s", account, got, want, m.Text)
		}
		if !strings.Contains(m.Text, "your account at Partner account was linked") || !strings.Contains(m.Text, "If you didn’t expect this") {
			t.Errorf("the account %q: the mail says %s", account, m.Text)
		}
	}
}

// TestMailNamesTheMethod: what was removed is named as on the page where another one is set up.
func TestMailNamesTheMethod(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	for method, want := range map[string]string{
		"pin": ": Pincode. ", "authenticator": ": Authenticator-app. ", "push": ": Goedkeuren op je telefoon. ",
	} {
		n := sample(notify.MethodRemoved)
		n.Data["method"], n.Locales = method, []string{"nl"}
		if m := p.one(n); !strings.Contains(m.Text, want) {
			t.Errorf("%s: the mail says %s", method, m.Text)
		}
	}
}

func TestMailSays(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	m := p.one(sample(notify.EmailUpdated))
	want := "Hello Ann,\n\nOn 21 November 2026, 12:00 UTC, the e-mail address of your account at Albers & Co was changed to new@example.com. From now on, messages go to that address.\n\n" +
		"If you didn’t expect this, contact your Albers & Co administrator right away.\n\n-- \nAlbers & Co sent this message to ann@example.com because it’s the address of an account there. Please don’t reply to this e-mail.\n"
	if p.pages.Words(t.Context(), []string{"en"}).Lang() != "en" {
		t.Fatal("no English")
	}
	n := sample(notify.EmailUpdated)
	n.Locales = []string{"en-GB"}
	m = p.one(n)
	if m.Text != want {
		t.Errorf("text = %q, want %q", m.Text, want)
	}
	if m.To != "ann@example.com" || m.Subject != "Your e-mail address at Albers & Co has changed" || !m.Date.Equal(p.time) ||
		!strings.HasSuffix(m.ID, "@auth.example.com") {
		t.Errorf("message = %+v", m)
	}
	n.Name, n.Locales = "", []string{"nl"}
	if m = p.one(n); !strings.HasPrefix(m.Text, "Hallo,\n") {
		t.Errorf("text = %q, want a greeting without a name, in Dutch", m.Text)
	}
}

// TestMailShowsCode: the code stands out, and times are in words of the language.
func TestMailShowsCode(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	n := sample(notify.StepUpCode)
	if m := p.one(n); !strings.Contains(m.HTML, `font-size:28px;font-weight:600;letter-spacing:2px">`+n.Data["code"]+"</p>") ||
		strings.Count(m.HTML, "font-size:28px") != 1 {
		t.Errorf("HTML = %s, want the code %s large, and nothing else", m.HTML, n.Data["code"])
	}
	n = sample(notify.EmailUpdated)
	n.Locales = []string{"fr"}
	if m := p.one(n); !strings.Contains(m.Text, "Le 21 novembre 2026 à 12:00 UTC, ") || strings.Contains(m.HTML, "font-size:28px") {
		t.Errorf("text = %q", m.Text)
	}
}

// TestAlertNamesEventsInTheLanguageOfTheRecipient: as the console does. A type without words has its English name.
func TestAlertNamesEventsInTheLanguageOfTheRecipient(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	for language, failed := range map[string]string{
		"en": "Sign-in failed", "nl": "Inloggen mislukt", "de": "Anmeldung fehlgeschlagen", "fr": "Échec de connexion",
	} {
		n := sample(notify.EventAlert)
		delete(n.Data, "events")
		n.Locales = []string{language}
		n.Events = []notify.Happened{
			{Type: "login.LoginFailedEvent", Name: "Login Failed", At: p.time, From: "192.0.2.1"},
			{Type: "x.OddEvent", Name: "Something Odd", At: p.time, From: "192.0.2.2"},
		}
		m := p.one(n)
		for _, want := range []string{
			"2026-11-21 12:00:00 UTC · " + failed + " · 192.0.2.1\n\n", "2026-11-21 12:00:00 UTC · Something Odd · 192.0.2.2\n",
		} {
			if !strings.Contains(m.Text, want) {
				t.Errorf("the e-mail in %s lacks %q:\n%s", language, want, m.Text)
			}
		}
	}
}

func TestCustomMessagesInMail(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.over = []*web.Overrides{{Default: map[string]string{
		"mail.welcome.subject": "Hi\n{username}", "mail.welcome.text": "<b>{name}</b>\n\n\n\nsecond\nline {unknown}",
	}, Locales: map[string]map[string]string{"xh": {"mail.greeting": "Molo {name}"}}}}
	n := sample(notify.Welcome)
	n.Locales = []string{"xh"}
	m := p.one(n)
	if m.Subject != "Hi ann" || !strings.HasPrefix(m.Text, "Molo Ann\n\n<b>Ann</b>\n\nsecond\nline {unknown}\n\n") ||
		!strings.Contains(m.HTML, "&lt;b&gt;Ann&lt;/b&gt;") {
		t.Errorf("message = %+v", m)
	}
}

func TestMailIsText(t *testing.T) {
	t.Parallel()
	for _, evil := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "a\r\nBcc: evil@example.com", "{brand} {{.Link}} ${7*7}",
		`javascript:alert(1)`, "<a href=https://evil.example.com>x</a>",
		strings.Repeat("x", 64<<10), "\u2028\u202e",
	} {
		t.Run(fmt.Sprintf("attack 239: %.30q in a name, an address of a profile and a custom message", evil), func(t *testing.T) {
			t.Parallel()
			p := newPost(t)
			n := sample(notify.EmailUpdated)
			n.Name, n.Data["address"], n.Locales = evil, evil, []string{"en"}
			p.over = []*web.Overrides{{Default: map[string]string{"mail.email_updated.subject": "Now " +
				strings.ReplaceAll(evil, "\r", "") + " {address}"}}}
			m := p.one(n)
			if strings.ContainsAny(m.Subject, "\r\n\u2028") || len([]rune(m.Subject)) > 200 {
				t.Errorf("subject = %q, want one short line", m.Subject)
			}
			if m.To != "ann@example.com" {
				t.Errorf("to = %q", m.To)
			}
			for node := range mustParse(t, m.HTML).Descendants() {
				if node.Type == html.ElementNode && (node.Data == "script" || node.Data == "img" || node.Data == "a") {
					t.Errorf("<%s> is in the HTML", node.Data)
				}
			}
		})
	}
	for _, to := range []string{
		"", "a@b,c@d", "a@example.com\r\nBcc: b@example.com", "\"a\r\nBcc:x\"@b", "Ann <ann@example.com>",
		"a@example.com\x00", `["a@example.com","b@example.com"]`, strings.Repeat("a", 64<<10) + "@example.com", "ann",
	} {
		t.Run(fmt.Sprintf("attack 239: to %.30q", to), func(t *testing.T) {
			t.Parallel()
			p := newPost(t)
			n := sample(notify.Welcome)
			n.To = to
			p.send(n)
			p.round(0, 0)
			if !strings.Contains(p.log.String(), "notice without an address") {
				t.Error("no notice was sent")
			}
		})
	}
}

// TestMailToAnOrganisation: it learns the application, the subject and the moment, and nothing else of the person.
func TestMailToAnOrganisation(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	n := notify.Notice{
		Kind: notify.AccountUnlinked, To: "help@acme.example", PersonID: "p1", Locales: []string{"nl_NL"},
		Data: map[string]string{"application": "The shop", "subject": "f3a1", "app": "Phone", "sites": "dav.example.com"},
	}
	m := p.one(n)
	want := "Hallo,\n\nOp 21 november 2026, 12:00 UTC is het account van een gebruiker bij Albers & Co losgekoppeld van The shop. "
	if m.To != "help@acme.example" || m.Subject != "Een account is losgekoppeld van The shop" || !strings.HasPrefix(m.Text, want) ||
		!strings.Contains(m.Text, "\n\nf3a1\n\n") ||
		!strings.Contains(m.Text, "van een organisatie daar") || strings.Contains(m.Text, "p1") || strings.Contains(m.HTML, "p1") {
		t.Errorf("message = %+v", m)
	}
	for _, evil := range []string{
		"a\r\nBcc: evil@example.com", "<script>alert(1)</script>", "{subject} {to}",
		strings.Repeat("x", 64<<10), "\u2028",
	} {
		t.Run(fmt.Sprintf("attack 239: %.30q as the name of an application that was unlinked", evil), func(t *testing.T) {
			t.Parallel()
			p := newPost(t)
			n := n
			n.Data = map[string]string{"application": evil, "subject": "f3a1"}
			m := p.one(n)
			if strings.ContainsAny(m.Subject, "\r\n\u2028") || len([]rune(m.Subject)) > 200 || strings.Contains(m.Subject, "f3a1") || m.To != n.To {
				t.Errorf("to %q, subject %q, want one short line", m.To, m.Subject)
			}
			for node := range mustParse(t, m.HTML).Descendants() {
				if node.Type == html.ElementNode && (node.Data == "script" || node.Data == "a") {
					t.Errorf("<%s> is in the HTML", node.Data)
				}
			}
		})
	}
}

func mustParse(t *testing.T, s string) *html.Node {
	t.Helper()
	n, err := html.Parse(strings.NewReader(s))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMailGreets: people choose their names, and what leads elsewhere is not one.
func TestMailGreets(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Ann": "Hello Ann,\n", "J.R.R. Tolkien": "Hello J.R.R. Tolkien,\n",
		"Dr. Łucja O’Neill-Ångström": "Hello Dr. Łucja O’Neill-Ångström,\n", "王小明": "Hello 王小明,\n",
		"Win at https://evil.example/": "Hello,\n", "evil.example": "Hello,\n", "WWW.evil": "Hello,\n", "write to x@evil": "Hello,\n",
		strings.Repeat("x", 101): "Hello,\n",
	} {
		t.Run(fmt.Sprintf("attack 239: greeting %.30q", name), func(t *testing.T) {
			t.Parallel()
			p := newPost(t)
			n := sample(notify.EmailUpdated)
			n.Name, n.Locales = name, []string{"en"}
			if m := p.one(n); !strings.HasPrefix(m.Text, want) {
				t.Errorf("text = %.80q, want %q", m.Text, want)
			}
		})
	}
}

// TestMailWaits: what the server does not take waits, over restarts, and goes with the same id and the same link.
func TestMailWaits(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.fail = errors.New("down")
	n := sample(notify.Welcome)
	n.Link = "/account?token=canary-token"
	p.send(n)
	p.round(0, 1)
	for range 3 {
		p.time = p.time.Add(2 * time.Hour)
		p.open(make([]byte, secret.KeySize))
		p.round(0, 1)
	}
	if n, err := p.Waiting(t.Context(), 10); n != 1 || err != nil {
		t.Fatalf("Waiting = %d, %v, want 1", n, err)
	}
	p.time = p.time.Add(2 * time.Hour)
	p.open(bytes.Repeat([]byte{1}, secret.KeySize)) // a configuration with another key leaves it alone
	p.fail = nil
	p.round(0, 1)
	p.time = p.time.Add(2 * time.Hour)
	p.open(make([]byte, secret.KeySize))
	p.round(1, 0)
	p.round(0, 0)
	if p.tries != 5 || len(p.taken) != 1 || !strings.Contains(p.taken[0].Text, "https://auth.example.com/account?token=canary-token") ||
		p.taken[0].Date.Hour() != 12 {
		t.Errorf("%d tries, taken %+v", p.tries, p.taken)
	}
	if log := p.log.String(); strings.Contains(log, "canary") || strings.Contains(log, "ann@example.com") || strings.Contains(log, "Ann") {
		t.Errorf("log = %s, want neither the link nor the address", log)
	}
}

func TestMailIsRefused(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.fail = fmt.Errorf("nobody there: %w", outbox.ErrRefused)
	p.send(sample(notify.Welcome))
	p.round(0, 1)
	if n, err := p.Waiting(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("Waiting = %d, %v, want it given up", n, err)
	}
}

// TestMailIsSealed: what lies in storage tells neither address nor link.
func TestMailIsSealed(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	n := sample(notify.Welcome)
	n.Link = "/account?token=canary-token"
	p.send(n)
	found := 0
	err := p.store.View(t.Context(), func(tx storage.Tx) error {
		for e, err := range storage.NewTable[outbox.Record[[]byte]]("mail").Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			found++
			if bytes.Contains(e.Value.Value, []byte("canary")) || bytes.Contains(e.Value.Value, []byte("ann")) {
				t.Errorf("the record holds %q", e.Value.Value)
			}
		}
		return nil
	})
	if err != nil || found != 1 {
		t.Errorf("%d records, %v, want 1", found, err)
	}
}

// TestMailOfAnUndoneTransaction: it is not sent.
func TestMailOfAnUndoneTransaction(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	undone := errors.New("undone")
	err := p.store.Update(t.Context(), func(tx storage.Tx) error { return errors.Join(p.Send(tx, sample(notify.Welcome)), undone) })
	if !errors.Is(err, undone) {
		t.Fatal(err)
	}
	p.round(0, 0)
}

func TestMailRuns(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	arrived := make(chan struct{})
	p.Transport = announcer{p.postman, arrived}
	go func() {
		defer close(done)
		p.Mail.Run(ctx)
	}()
	p.send(sample(notify.Welcome))
	<-arrived
	cancel()
	<-done
}

// announcer says when a message has come.
type announcer struct {
	*postman
	arrived chan struct{}
}

func (a announcer) Deliver(ctx context.Context, m notify.Message) error {
	defer close(a.arrived)
	return a.postman.Deliver(ctx, m)
}
